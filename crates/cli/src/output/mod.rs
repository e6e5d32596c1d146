//! How things are shown: clean text, tables, facts, colours, times, and the screen they all end on.

pub mod choice;
pub mod facts;
pub mod harmless;
pub mod json;
pub mod paint;
pub mod screen;
pub mod table;
pub mod text;
pub mod time;

pub use choice::{Output, document};
pub use facts::Facts;
pub use paint::Paint;
pub use screen::{Notes, Screen};
pub use table::{Cell, Column, Table};
pub use text::Text;
