//! NCCL's own functions between processes, with memory and streams of the device.

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nccl_sys::*;
use typed_nccl::{AnyDevice, Cuda, Result};

pub(crate) const OK: ncclResult_t = ncclResult_t::ncclSuccess;
pub(crate) const I64: ncclDataType_t = ncclDataType_t::ncclInt64;
pub(crate) const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;

/// One rank.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) api: &'static Api,
    pub(crate) comm: ncclComm_t,
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

// SAFETY: a communicator is not bound to a thread; the tests use one from two threads only where
// NCCL allows it.
unsafe impl Send for Raw {}

pub(crate) use crate::call::{address, call, handle};

pub(crate) fn number(name: &str) -> usize {
    let value = env::var(name).expect("it was started as a rank");
    value.parse().expect("a number")
}

/// Where ranks leave files for each other.
fn folder() -> PathBuf {
    let job = env::var("TORCHELASTIC_RUN_ID").expect("it was started as a rank");
    Path::new(&env::var_os("FAKE_NCCL_MOVES").expect("it has a stage")).join(job)
}

/// Writes a file, or waits for it.
pub(crate) fn meet(is_first: bool, write: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let (path, new) = (folder(), folder().with_extension("new"));
    if is_first {
        fs::write(&new, write()).expect("the stage is there");
        fs::rename(new, &path).expect("the stage is there");
    }
    loop {
        match fs::read(&path) {
            Ok(bytes) => return bytes,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Waits until one rank, which has met the others, comes here.
pub(crate) fn after(is_first: bool) {
    let path = folder().with_extension("after");
    if is_first {
        fs::write(&path, "").expect("the stage is there");
    }
    while !path.exists() {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Raw {
    /// The communicator of all ranks of the job, each on its own GPU.
    pub(crate) fn world() -> Result<(Self, Cuda<AnyDevice>)> {
        let (result, raw, device) = Self::join(number("LOCAL_RANK") as u32)?;
        assert_eq!(result, OK);
        Ok((raw, device))
    }

    /// Likewise on a given GPU, with NCCL's result.
    pub(crate) fn join(gpu: u32) -> Result<(ncclResult_t, Self, Cuda<AnyDevice>)> {
        let (rank, size) = (number("RANK"), number("WORLD_SIZE"));
        let device = Cuda::any(gpu)?;
        // The device is current afterwards.
        device.stream()?;
        // SAFETY: the test's environment selects the double.
        let api = unsafe { Api::load() }.expect("the double loads");
        let mut raw = Self { api, comm: NCCL_COMM_NULL, rank, size };
        let id = meet(rank == 0, || {
            let mut id = ncclUniqueId::zeroed();
            assert_eq!(call!(raw, ncclGetUniqueId(&raw mut id)), OK);
            id.to_bytes().to_vec()
        });
        let id = ncclUniqueId::from_bytes(id.try_into().expect("an id is so long"));
        let (size, rank) = (size as c_int, rank as c_int);
        let result = call!(raw, ncclCommInitRank(&raw mut raw.comm, size, id, rank));
        Ok((result, raw, device))
    }

    /// NCCL's asynchronous error.
    pub(crate) fn async_error(self) -> ncclResult_t {
        let mut error = OK;
        assert_eq!(call!(self, ncclCommGetAsyncError(self.comm, &raw mut error)), OK);
        error
    }

    pub(crate) fn child(self, comm: ncclComm_t) -> Self {
        let (mut rank, mut size) = (0, 0);
        let child = Self { comm, ..self };
        assert_eq!(call!(child, ncclCommUserRank(comm, &raw mut rank)), OK);
        assert_eq!(call!(child, ncclCommCount(comm, &raw mut size)), OK);
        Self { rank: rank as usize, size: size as usize, ..child }
    }

    /// A sum of one number of each rank.
    pub(crate) fn sum(self, device: &Cuda<AnyDevice>, own: i64) -> Result<i64> {
        let (stream, x) = (device.stream()?, device.from_slice(&[own])?);
        let (at, on) = (address(&stream, &x)?, handle(&stream)?);
        assert_eq!(call!(self, ncclAllReduce(at, at, 1, I64, SUM, self.comm, on)), OK);
        stream.sync()?;
        Ok(x.to_vec()?[0])
    }
}

/// Whether everything on a stream is over.
pub(crate) fn is_idle(stream: cudaStream_t) -> bool {
    // SAFETY: it is a stream of the driver.
    let result = unsafe { cudarc::driver::sys::cuStreamQuery(stream.cast()) };
    result == cudarc::driver::sys::CUresult::CUDA_SUCCESS
}

/// Waits until a stream is idle.
#[track_caller]
pub(crate) fn settle(stream: cudaStream_t) {
    let started = Instant::now();
    while !is_idle(stream) {
        assert!(started.elapsed() < Duration::from_secs(20), "the stream is never idle");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that a stream is busy and stays busy for a while.
#[track_caller]
pub(crate) fn hangs(stream: cudaStream_t) {
    thread::sleep(Duration::from_millis(300));
    assert!(!is_idle(stream), "it is over");
}
