//! A window for network access has no addresses of its peers.

use typed_nccl::{GinOnly, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let ghost = comm.register_window_as(memory, GinOnly)?;
    assert!(comm.peer_ptr(&ghost, 0)?.is_some());
    comm.finish()
}
