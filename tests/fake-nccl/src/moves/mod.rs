//! Data that moves, between threads and between processes, if the environment names a folder for
//! it.
//!
//! Ranks of one communicator meet in a subfolder, its room. A message is a file there that appears
//! as a whole and is removed by its receiver. So a killed rank simply stops sending, and the others
//! wait for it as NCCL's do. NCCL's memory consists of files too, which other ranks map, so puts
//! and signals write directly to their targets. Work is enqueued on the streams of the double of
//! CUDA.

mod batch;
mod collective;
mod driver;
mod end;
mod header;
mod later;
mod launch;
mod life;
mod member;
mod memory;
#[cfg_attr(not(target_os = "linux"), path = "no_os.rs")]
mod os;
mod reduce;
mod room;
mod signals;
mod window;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(crate) use batch::Work;
pub(crate) use collective::{Collective, Kind};
pub(crate) use end::{Hold, prepare as prepare_end};
pub(crate) use later::{later, take as take_later};
pub(crate) use launch::{close_group, drop_group, enqueue};
pub(crate) use life::{Id, Terms, barrier, join, shrink, split};
pub(crate) use member::Member;
pub(crate) use memory::{allocate, free};
pub(crate) use reduce::{Operation, width};
pub(crate) use room::Slots;
pub(crate) use signals::{Target, Wait, Write};
pub(crate) use window::{Reach, register};

/// Names the folder in which data moves; it should be in memory.
const FOLDER: &str = "FAKE_NCCL_MOVES";

/// The folder, if data moves.
pub(crate) fn folder() -> Option<&'static Path> {
    static FOUND: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(FOLDER).map(PathBuf::from).filter(|_| os::CAN));
    FOUND.as_deref()
}

/// Whether data moves.
pub(crate) fn are_on() -> bool {
    folder().is_some()
}
