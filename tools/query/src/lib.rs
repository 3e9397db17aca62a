//! SQL over the tables of a trace. Owns the views by which queries name the tables, recipes for
//! what people ask, and the engine: DuckDB, which is no part of clscope and is found on this
//! machine. Refuses to write tables, and to print.
#![forbid(unsafe_code)]

pub mod answer;
pub mod engine;
mod hints;
mod json;
pub mod recipes;
mod views;

pub use engine::{Engine, Form, QueryError, missing_table};
pub use hints::{Unanswered, explained, hints};
pub use json::Strict;
pub use recipes::{RECIPES, Recipe};
pub use views::views;
