//! What pictures say, and that they can be read.

mod escaping;
mod layout;
mod mermaid;
mod sheet;
mod story;
mod text;
