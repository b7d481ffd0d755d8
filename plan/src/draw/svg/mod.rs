//! Pictures as self-contained SVG files.

mod canvas;
mod grid;
mod key;
mod story;
mod timeline;
mod wires;

pub(crate) use story::draw as story;
pub(crate) use timeline::draw as timeline;
