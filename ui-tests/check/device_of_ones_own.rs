//! A device's ordinal is asked more than once: safe code makes no device whose answer may change.

use std::sync::atomic::{AtomicU32, Ordering};

use typed_nccl::{Device, Host, Result, World};

static ASKED: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Debug)]
struct Fickle;

impl World for Fickle {
    type Device = Self;
}

impl Device for Fickle {
    type Backend = <Host as Device>::Backend;
    const KIND: &'static str = "fickle";

    fn ordinal(&self) -> u32 {
        ASKED.fetch_add(1, Ordering::Relaxed)
    }
}

fn main() -> Result<()> {
    Fickle.zeros::<f32>(8).map(drop)
}
