//! Schedules: they do what their plans say, in as few groups as that allows.

mod apart;
mod every_plan;
mod joined;
mod kept_apart;
mod kernels;
mod operations;
mod stretches;
mod time;
mod verify;
mod waits;
mod words;
