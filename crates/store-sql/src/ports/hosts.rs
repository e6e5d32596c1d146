//! Inventories and hosts.

use async_trait::async_trait;
use bowline_model::audit::Author;
use bowline_model::host::Group;
use bowline_model::{HostName, InventoryName, TenantId};
use bowline_store::{HostRecord, HostStore, InventoryPut, InventoryRecord, Page, PutAnswer, StoreResult};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl HostStore for SqlLedger {
    async fn put_inventory(&self, put: InventoryPut) -> StoreResult<PutAnswer> {
        self.wish(|line| Command::PutInventory(put, line)).await
    }

    async fn find_inventory(&self, tenant: TenantId, name: InventoryName) -> StoreResult<Option<InventoryRecord>> {
        self.look(move |db| Box::pin(async move { read::find_inventory(db, tenant, &name).await })).await
    }

    async fn list_inventories(&self, tenant: TenantId) -> StoreResult<Vec<InventoryRecord>> {
        self.look(move |db| Box::pin(read::list_inventories(db, tenant))).await
    }

    async fn list_groups(&self, tenant: TenantId, inventory: InventoryName) -> StoreResult<Vec<Group>> {
        self.look(move |db| Box::pin(async move { read::list_groups(db, tenant, &inventory).await })).await
    }

    async fn list_hosts(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        after: Option<HostName>,
        limit: u32,
    ) -> StoreResult<Page<HostRecord, HostName>> {
        self.look(move |db| {
            Box::pin(async move { read::list_hosts(db, tenant, &inventory, after.as_ref(), limit).await })
        })
        .await
    }

    async fn find_host(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        host: HostName,
    ) -> StoreResult<Option<HostRecord>> {
        self.look(move |db| Box::pin(async move { read::find_host(db, tenant, &inventory, &host).await })).await
    }

    async fn remove_hosts(
        &self,
        tenant: TenantId,
        inventory: InventoryName,
        hosts: Vec<HostName>,
        by: Author,
        reason: Option<String>,
    ) -> StoreResult<u64> {
        self.wish(|line| Command::RemoveHosts((tenant, inventory, hosts, by, reason), line)).await
    }
}
