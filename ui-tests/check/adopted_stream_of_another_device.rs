//! A stream that another library made is of one device here.

use std::ffi::c_void;

use typed_nccl::{Communicator, Cuda, Result, Stream, Sum, tag};

tag!(First, Second);

fn step(
    comm: &Communicator<Cuda<First>>,
    device: &Cuda<Second>,
    theirs: *mut c_void,
) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(8)?;
    // SAFETY: it is a stream of that device, and stays.
    let stream = unsafe { Stream::from_raw(device, theirs) }?;
    comm.on(&stream).all_reduce_in_place(&mut x, Sum)
}

fn main() {
    let _: fn(&Communicator<Cuda<First>>, &Cuda<Second>, *mut c_void) -> Result<()> = step;
}
