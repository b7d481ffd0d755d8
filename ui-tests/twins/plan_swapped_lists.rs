//! Where a plan has an array of two copies it takes a list of pairs, not a pair of lists.

use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Swapped, Values};
use typed_nccl::{Device, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut nothing = PlanBuilder::new("nothing");
    nothing.ranks(1..);
    let checked = nothing.check().expect("no steps");
    let mut bound = plan::bind(&mut comm, checked.plan(), &Values::new())?;
    let zeros = || Device::zeros::<f32>(comm.device(), 4);
    let now = Swapped::new(zeros()?, zeros()?);
    let mut layers = vec![now, Swapped::new(zeros()?, zeros()?)];
    // Of another plan: what counts here is that it can be given.
    assert!(bound.on(&comm).write("layers", &mut layers).run(&mut ()).is_err());
    comm.finish()
}
