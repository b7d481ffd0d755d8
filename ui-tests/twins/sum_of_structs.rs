//! Plain data of a program's own can only be moved.

use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
use typed_nccl::{Host, Plain, Result, Seat};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Particle {
    at: [f32; 2],
    id: u32,
}

impl Plain for Particle {}

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<Particle>(4)?;
    comm.broadcast_in_place(&mut x, 0)?;
    comm.finish()
}
