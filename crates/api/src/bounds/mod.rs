//! What keeps tenants from harming each other: quotas, and evaluations that are set aside.

mod evaluations;
mod quotas;

pub use evaluations::{EvaluationList, ResumeRequest, ResumedView, evaluations, resume};
pub use quotas::{QuotasView, exceeded, quotas};
