//! How much an expression may say, do and make.
//!
//! Every limit is checked before the work it forbids is done, so that the worst text costs what the limits cost and not
//! what its writer wishes. The numbers are promises to users: they stand in the guide, too.

/// What may stand between `{{` and `}}`.
pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
/// How many places a text may have.
pub const PLACES_MAX: usize = 1_000;
/// Parts of expressions that one rendering may look at. A list's element that a function touches counts as one, too.
pub const STEPS_MAX: u32 = 10_000;
/// How deep an expression may be nested, and how deep a value that leaves may be.
pub const DEPTH_MAX: usize = 64;
/// What may come out of one rendering, as JSON text.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;
/// Text that one rendering may make on its way, all of it together.
pub const WORK_BYTES_MAX: usize = 1024 * 1024;
/// The longest pattern that `matches` takes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Different patterns of one definition.
pub const PATTERNS_MAX: usize = 1_000;
/// What the patterns of one definition may become together once they are compiled.
pub const PATTERNS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The same of a text that stands alone, such as the condition of a breakpoint.
pub const PATTERNS_OF_A_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// What all expressions that one visit of a node evaluates may do together: a loop evaluates its own for each item.
pub const VISIT_STEPS_MAX: u32 = 1_000_000;
/// Text that they may make on their way, all of it together.
pub const VISIT_WORK_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest name of a variable.
pub const VARIABLE_NAME_BYTES_MAX: usize = 128;

/// An object in memory is many times larger than its JSON text; whoever makes one pays for that.
pub(super) const STEPS_OF_AN_OBJECT: u32 = 4;
/// Searching in text is fast but not free: a step for each such piece.
pub(super) const BYTES_OF_A_SEARCH_STEP: usize = 1024;
