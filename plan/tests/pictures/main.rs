//! What pictures say, and that they can be read.

#[path = "../plans/mod.rs"]
mod plans;
#[path = "../schedules/mod.rs"]
mod schedules;

mod escaping;
mod layout;
mod mermaid;
mod sheet;
mod story;
mod text;
