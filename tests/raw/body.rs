//! A rank with a communicator of NCCL's own functions: uses it, has it adopted, and continues to
//! use it.

use std::ffi::c_int;
use std::ptr;
use std::time::Duration;

use nccl_sys::*;
use typed_nccl::{CommConfig, Communicator, Cuda, NcclMem, PreMulSum, Result, Seat, Sum, tag};

use crate::call::{address, call, handle};

tag!(Theirs, Half);

pub(crate) const OK: ncclResult_t = ncclResult_t::ncclSuccess;

/// A communicator made by NCCL's own functions.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) api: &'static Api,
    pub(crate) comm: ncclComm_t,
}

// SAFETY: a communicator is not bound to a thread, and only one thread uses it.
unsafe impl Send for Raw {}

/// The loaded NCCL.
pub(crate) fn api() -> &'static Api {
    // SAFETY: the library is NCCL, or its double.
    unsafe { Api::load() }.expect("NCCL loads")
}

pub(crate) fn id() -> [u8; NCCL_UNIQUE_ID_BYTES] {
    let (mut id, raw) = (ncclUniqueId::zeroed(), Raw { api: api(), comm: NCCL_COMM_NULL });
    assert_eq!(call!(raw, ncclGetUniqueId(&raw mut id)), OK);
    id.to_bytes()
}

impl Raw {
    /// Makes one, as another library does: by `ncclCommInitRank`, or a non-blocking one.
    pub(crate) fn join<Tag>(
        device: &Cuda<Tag>,
        id: [u8; NCCL_UNIQUE_ID_BYTES],
        (rank, size): (usize, usize),
        blocks: bool,
    ) -> Result<Self> {
        // The device is current afterwards.
        device.stream()?.sync()?;
        let mut raw = Self { api: api(), comm: NCCL_COMM_NULL };
        let (id, rank, size) = (ncclUniqueId::from_bytes(id), rank as c_int, size as c_int);
        if blocks {
            assert_eq!(call!(raw, ncclCommInitRank(&raw mut raw.comm, size, id, rank)), OK);
            return Ok(raw);
        }
        let mut config = ncclConfig_t::new();
        config.blocking = 0;
        let config = &raw mut config;
        let made = call!(raw, ncclCommInitRankConfig(&raw mut raw.comm, size, id, rank, config));
        raw.settle(made);
        Ok(raw)
    }

    /// Waits until it has completed a call.
    pub(crate) fn settle(self, mut result: ncclResult_t) {
        while result == ncclResult_t::ncclInProgress {
            std::thread::sleep(Duration::from_micros(100));
            assert_eq!(call!(self, ncclCommGetAsyncError(self.comm, &raw mut result)), OK);
        }
        assert_eq!(result, OK);
    }

    /// A sum of one number of each rank.
    pub(crate) fn sum<Tag>(self, device: &Cuda<Tag>, own: i64) -> Result<i64> {
        let (stream, x) = (device.stream()?, device.from_slice(&[own])?);
        let (at, on) = (address(&stream, &x)?, handle(&stream)?);
        let (int, sum) = (ncclDataType_t::ncclInt64, ncclRedOp_t::ncclSum);
        self.settle(call!(self, ncclAllReduce(at, at, 1, int, sum, self.comm, on)));
        stream.sync()?;
        Ok(x.to_vec()?[0])
    }

    pub(crate) fn destroy(self) {
        assert_eq!(call!(self, ncclCommDestroy(self.comm)), OK);
    }
}

pub(crate) fn config() -> CommConfig {
    CommConfig::builder().deadline(Duration::from_secs(30)).build()
}

/// Uses it, has it adopted by two seats one after the other, and finally destroys it.
pub(crate) fn goes_round<Tag>(
    raw: Raw,
    device: impl Fn() -> Result<Cuda<Tag>>,
    [first, second]: [Seat; 2],
) -> Result<()> {
    let (rank, size) = (first.rank().index() as i64, first.size() as i64);
    let all = size * (size + 1) / 2;
    assert_eq!(raw.sum(&device()?, rank + 1)?, all);
    let comm = Communicator::builder().seat(first).device(device()?).label::<Theirs>();
    // SAFETY: nothing else uses it until it is given back.
    let comm = unsafe { comm.config(config()).build().with_raw(raw.comm) }.connect()?;
    let comm = uses(comm)?;
    assert!(ptr::eq(comm.into_raw()?, raw.comm));
    assert_eq!(raw.sum(&device()?, 2 * (rank + 1))?, 2 * all);

    // SAFETY: as above.
    let comm = unsafe { Communicator::from_raw(second, device()?, raw.comm) }?;
    let mut x = comm.device().from_slice(&[rank as f32 + 1.0])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    // Its work need not be waited for.
    assert!(ptr::eq(comm.into_raw()?, raw.comm));
    assert_eq!(x.to_vec()?, [all as f32]);
    assert_eq!(raw.sum(&device()?, rank + 1)?, all);
    raw.destroy();
    Ok(())
}

/// Collectives, a window with a put, an operator, children. The window and the operator stay alive.
fn uses<Tag>(mut comm: Communicator<Theirs<Cuda<Tag>>>) -> Result<Communicator<Theirs<Cuda<Tag>>>> {
    let (rank, size) = (comm.rank().index(), comm.size());
    let all = (size * (size + 1) / 2) as f32;
    let mut x = comm.device().from_slice(&[rank as f32 + 1.0; 100])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [all; 100]);
    // Several at once, as one group.
    let mut y = comm.device().zeros::<f32>(100)?;
    comm.group(|g| {
        g.send(&x, (rank + 1) % size)?;
        g.recv(&mut y, (rank + size - 1) % size)
    })?;
    assert_eq!(y.to_vec()?, [all; 100]);
    let twice: PreMulSum<f32, Theirs<Cuda<Tag>>> = comm.pre_mul_sum(2.0)?;
    comm.all_reduce_in_place(&mut x, &twice)?;
    assert_eq!(x.to_vec()?, [2.0 * size as f32 * all; 100]);

    let mut buffer = comm.device().nccl_zeros::<i64>(2)?;
    buffer.copy_from(&[rank as i64, -1])?;
    let window = comm.register_window::<i64, NcclMem>(buffer)?;
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    comm.put_signal(window.slice(0..1), next, window.at(1))?;
    comm.wait_signal(previous)?;
    assert_eq!(window.to_vec()?, [rank as i64, previous as i64]);

    let half = comm.split::<Half>(rank as u32 % 2, 0)?;
    let mut x = half.device().from_slice(&[1_i32])?;
    half.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [half.size() as i32]);
    half.finish()?;
    Ok(comm)
}
