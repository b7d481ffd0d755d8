//! The library as a program uses it, on the host backend: ranks are threads of this process.
//!
//! Tests that need their own process call [`own_process::inside`].

mod again;
mod busy;
mod own_process;
mod ranks;
mod watched;

mod adopt;
mod assigned;
mod bad_input;
mod becoming;
mod by_address;
#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "candle-cuda")]
mod candle_gpu;
#[cfg(feature = "candle")]
mod candle_models;
mod clique;
mod collectives;
mod complex;
mod convert;
mod deadlocks;
#[cfg(feature = "dlpack")]
mod dlpack;
mod dynamic;
mod elements;
mod embed;
mod ends;
mod exact;
mod exchanged;
mod graphs;
mod groups;
mod grow;
mod hazards;
mod late;
mod lifecycle;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "ndarray")]
mod ndarray;
mod operands;
mod order;
mod ordered;
mod panics;
mod pinned;
mod plan_macro;
mod plans;
mod plans_library;
mod published;
mod python;
mod ranges;
mod reads;
mod split;
mod stale;
mod stamps;
mod survive;
mod suspend;
mod tensor;
#[cfg(feature = "tracing")]
mod tracing;
mod windows;
mod work;
