//! Schedules.

use async_trait::async_trait;
use bowline_model::{ResourceName, TenantId};
use bowline_store::{
    DueSchedules, Fired, Firing, Page, ScheduleRecord, ScheduleStore, StoreResult, Trigger, Triggered,
};

use crate::command::Command;
use crate::{SqlLedger, read};

#[async_trait]
impl ScheduleStore for SqlLedger {
    async fn due_schedules(&self, limit: u32, except: Vec<TenantId>) -> StoreResult<DueSchedules> {
        self.look(move |db| Box::pin(read::due_schedules(db, limit, except))).await
    }

    async fn fire_schedules(&self, firings: Vec<Firing>) -> StoreResult<Vec<Fired>> {
        self.wish(|line| Command::FireSchedules(firings, line)).await
    }

    async fn trigger_schedule(&self, trigger: Trigger) -> StoreResult<Triggered> {
        self.wish(|line| Command::TriggerSchedule(Box::new(trigger), line)).await
    }

    async fn find_schedule(&self, tenant: TenantId, name: ResourceName) -> StoreResult<Option<ScheduleRecord>> {
        self.look(move |db| Box::pin(async move { read::find_schedule(db, tenant, &name).await })).await
    }

    async fn list_schedules(
        &self,
        tenant: TenantId,
        after: Option<ResourceName>,
        limit: u32,
    ) -> StoreResult<Page<ScheduleRecord, ResourceName>> {
        self.look(move |db| Box::pin(async move { read::list_schedules(db, tenant, after.as_ref(), limit).await }))
            .await
    }
}
