//! A plan writes memory that is borrowed for that.

use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Values};
use typed_nccl::{Device, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut total = PlanBuilder::new("total");
    total.ranks(1..);
    let (x, net) = (total.in_out::<f32>("x", 4), total.stream("net"));
    total.on(net).all_reduce_in_place(x, Sum);
    let checked = total.check().expect("a plan that is right");
    let mut total = plan::bind(&mut comm, checked.plan(), &Values::new())?;
    let mut x = Device::zeros::<f32>(comm.device(), 8)?;
    total.on(&comm).write("x", &mut x.slice_mut(..4)).run(&mut ())?;
    comm.finish()
}
