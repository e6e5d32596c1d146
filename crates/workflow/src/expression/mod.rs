//! `{{ … }}`: small, total, and evaluated once.
//!
//! Enters: texts that people wrote into a definition, and the [`Context`] of an execution. Leaves: values, or an error that
//! says what is wrong and where, without a word of what the context holds. A *place* is a `{{ … }}` in a text, and an
//! *expression* is what stands in it.
//!
//! Never here: loops, definitions, anything that could be defined by a value, the clock, chance, secrets. A value that was
//! inserted is never looked at again, whatever braces it contains.
//!
//! The language is a part of Jinja's, so that few have to learn it, but there is no template engine behind it. The one we
//! looked at longest, minijinja 2.24, repeats a text up to a hundred megabytes, calculates in 128 bits, shows operands in
//! its messages, and reads `----…1` by calling itself once per sign; its operators cannot be replaced. Here every step and
//! every byte is asked for before it is taken ([`limits`]), and what lies in the context is borrowed.

mod budget;
mod context;
mod error;
mod evaluate;
mod functions;
mod insert;
pub mod limits;
mod operators;
mod parse;
mod pattern;
mod references;
mod scope;
mod syntax;
mod template;
#[cfg(test)]
mod tests;
mod token;
mod tree;
mod value;

pub use context::{Context, check_variable_name};
pub use error::{ErrorCode, ExpressionError, Place};
pub use insert::Insert;
pub(crate) use pattern::Patterns;
pub use references::Reference;
pub use scope::{Root, Scope};
pub use template::Template;
pub(crate) use token::{is_name_part, is_name_start};
pub use tree::TemplateTree;
