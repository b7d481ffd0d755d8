//! A colour is a whole number.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let node = comm.split::<Node>(comm.rank().index() / 2, 0)?;
    node.finish()?;
    comm.finish()
}
