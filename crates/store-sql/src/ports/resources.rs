//! Resources.

use async_trait::async_trait;
use bowline_model::resource::ResourceKind;
use bowline_model::{ResourceName, TenantId};
use bowline_store::{
    Activated, Activation, ActiveStamp, Applied, Applying, Deleted, OnceKey, OwnedResource, Page, ResourceKey,
    ResourceOrder, ResourcePut, ResourceRecord, ResourceStore, ResourceStored, StoreResult, VersionRecord,
};

use crate::command::Command;
use crate::{SqlLedger, read, write};

#[async_trait]
impl ResourceStore for SqlLedger {
    async fn put_resource(&self, put: ResourcePut) -> StoreResult<ResourceStored> {
        self.wish(|line| Command::PutResource(put, line)).await
    }

    async fn apply(&self, documents: Vec<Applying>) -> StoreResult<Applied> {
        self.wish(|line| Command::Apply(documents, line)).await
    }

    async fn find_resource(&self, key: ResourceKey, version: Option<u32>) -> StoreResult<Option<ResourceRecord>> {
        let question = (key, version);
        let asked = match self.shared.known.recall(&question) {
            Ok(known) => return Ok(Some(known)),
            Err(asked) => asked,
        };
        let key = question.0.clone();
        let found = self.look(move |db| Box::pin(async move { read::find_resource(db, &key, version).await })).await?;
        if let Some(answer) = &found {
            self.shared.known.remember(asked, question, answer);
        }
        Ok(found)
    }

    async fn list_resources(
        &self,
        tenant: TenantId,
        kind: ResourceKind,
        after: Option<ResourceName>,
        limit: u32,
    ) -> StoreResult<Page<ResourceRecord, ResourceName>> {
        self.look(move |db| {
            Box::pin(async move { read::list_resources(db, tenant, kind, after.as_ref(), limit).await })
        })
        .await
    }

    async fn list_active(
        &self,
        kind: ResourceKind,
        after: i64,
        limit: u32,
    ) -> StoreResult<Page<(TenantId, ResourceRecord), i64>> {
        self.look(move |db| Box::pin(async move { read::list_active(db, kind, after, limit).await })).await
    }

    async fn list_active_stamps(
        &self,
        kind: ResourceKind,
        after: i64,
        limit: u32,
    ) -> StoreResult<Page<ActiveStamp, i64>> {
        self.look(move |db| Box::pin(async move { read::list_active_stamps(db, kind, after, limit).await })).await
    }

    async fn list_owned(&self, owners: Vec<String>) -> StoreResult<Vec<OwnedResource>> {
        self.look(move |db| Box::pin(async move { read::list_owned(db, &owners).await })).await
    }

    async fn count_stopped(&self) -> StoreResult<u64> {
        self.look(move |db| Box::pin(async move { read::count_stopped(db).await })).await
    }

    async fn list_versions(
        &self,
        key: ResourceKey,
        before: Option<u32>,
        limit: u32,
    ) -> StoreResult<Option<Page<VersionRecord, u32>>> {
        self.look(move |db| Box::pin(async move { read::list_versions(db, &key, before, limit).await })).await
    }

    async fn activate(&self, activation: Activation) -> StoreResult<Activated> {
        self.wish(|line| Command::ActivateResource(Box::new(activation), line)).await
    }

    async fn find_activation(&self, key: ResourceKey, once: OnceKey) -> StoreResult<Option<Activated>> {
        self.look(move |db| Box::pin(async move { write::find_activation(db, &key, Some(&once)).await })).await
    }

    async fn delete_resource(&self, order: ResourceOrder) -> StoreResult<Deleted> {
        self.wish(|line| Command::DeleteResource(order, line)).await
    }
}
