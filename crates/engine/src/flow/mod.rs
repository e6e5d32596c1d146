//! Runs of workflows: how they begin, go on, and are looked at and steered.
//!
//! What a run does is worked out in the room `workflow`, which is pure; here it is fed with what came in, and what comes of
//! it is stored as one turn. Nobody owns a run: whoever has worked out its next turn tries to store it, and only the first
//! one can. So a run needs no lease, a server that dies holds nothing up, and two servers do the same work once.

mod asked;
mod calls;
mod compile;
mod consent;
mod definitions;
mod hosts;
mod look;
mod memory;
mod named;
mod picture;
mod programs;
mod records;
mod room;
mod shadow;
mod start;
mod steer;
mod steps;
mod turner;
mod why;

pub use compile::{compile as compile_definition, read_blueprint_aside, read_workflow_aside};
pub use definitions::{Definition, DefinitionError, DefinitionKind, Definitions, Pinned};
pub use look::{Changed, ContextView, Edit, Forking, LookError};
pub use picture::FlowPicture;
pub use shadow::ShadowView;
pub use start::{Begun, BlueprintChoice, FlowError, FlowRequest, FlowSubmitted, Going, INLINE, WorkflowChoice};
pub use steer::Told;
pub use steps::{SKIPPED_MAX, STEP_INPUT_BYTES_MAX, SkippedNode, StepInput, StepView, StepsPage};
pub use turner::{Round, turn_forever};
pub use why::Standing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};

use bowline_backbone::BlobStore;
use bowline_store::{Clock, Ledger};

use crate::aside::Places;
use crate::checks::Checks;
use crate::intake::Intake;
use crate::quotas::Quotas;
use crate::starter::Starter;
use memory::Memory;
use room::Rooms;

/// The door for workflows.
#[derive(Debug)]
pub struct Flows {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    /// Where output is.
    blobs: Arc<dyn BlobStore>,
    pub definitions: Definitions,
    /// Runs that are going on, so that they need not be read again for each turn.
    memory: Memory,
    /// Room for histories that are read.
    rooms: Rooms,
    quotas: Arc<Quotas>,
    /// Executions whose last advance found no room, and how many bytes it needed.
    needs_room: Mutex<HashMap<i64, u64>>,
    /// There may be signals that not everybody has who waits for them.
    spreading: AtomicBool,
    /// When that was looked for last, in milliseconds.
    spread_at: AtomicI64,
    /// Whose turn it is to look at a shadow.
    shadows: Places,
}

impl Flows {
    pub fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        checks: Arc<Checks>,
        blobs: Arc<dyn BlobStore>,
        quotas: Arc<Quotas>,
    ) -> Self {
        let definitions = Definitions::new(Arc::clone(&ledger), checks, Arc::clone(&quotas));
        Self {
            ledger,
            clock,
            blobs,
            definitions,
            memory: Memory::default(),
            rooms: Rooms::default(),
            quotas,
            needs_room: Mutex::default(),
            spreading: AtomicBool::new(true),
            spread_at: AtomicI64::new(0),
            shadows: Places::new(2),
        }
    }
}

/// What the rooms of the engine give to a run that begins jobs.
#[derive(Debug, Clone, Copy)]
pub struct Hands<'a> {
    pub intake: &'a Arc<Intake>,
    pub starter: &'a Starter,
}
