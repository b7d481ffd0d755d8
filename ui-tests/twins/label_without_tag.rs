//! A communicator's name is minted by `tag!`.

use typed_nccl::{Communicator, Host, Result, Seat, tag};

tag!(Gradients);

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let builder = Communicator::builder().seat(seat).device(Host::local()?);
    builder.label::<Gradients>().build().connect()?.finish()
}
