//! Splitting waits for the other ranks, and a group does not.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let node = comm.split::<Node>(0, 0)?;
    node.finish()
}
