//! Schedules: they do what their plans say, in as few groups as that allows.

mod apart;
mod every_plan;
mod joined;
mod kept_apart;
mod kernels;
mod operations;
#[path = "../plans/mod.rs"]
mod plans;
mod stretches;
mod time;
mod verify;
mod waits;
mod words;
