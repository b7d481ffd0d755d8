//! The names of the parts are minted by `tag!`.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

struct Rack;

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    assert_eq!(size_of::<Rack>(), 0);
    let part = world.split::<Rack>(0, 0)?;
    drop(part);
    world.split::<Node>(0, 0)?.finish()?;
    world.finish()
}
