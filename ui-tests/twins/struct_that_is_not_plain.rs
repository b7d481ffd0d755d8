//! A struct becomes an element by `Plain`, which asks for proof that any bytes are one.

use typed_nccl::zerocopy::{FromBytes, Immutable, IntoBytes};
use typed_nccl::{Host, Plain, Result};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[zerocopy(crate = "typed_nccl::zerocopy")]
#[repr(C)]
struct Particle {
    at: [f32; 2],
    id: u32,
}

impl Plain for Particle {}

fn main() -> Result<()> {
    let host = Host::local()?;
    host.from_slice(&[Particle { at: [0.0; 2], id: 1 }]).map(drop)
}
