//! Device memory holds numbers; other values go from host to host.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let name = String::from("rank 0");
    let names = comm.gather_values(&name)?;
    drop(names);
    comm.finish()
}
