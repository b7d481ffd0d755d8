//! A seat is one rank's place: there is one of it.

use typed_nccl::{At, Host, Result, Seat};

fn main() -> Result<()> {
    let mut seats = Seat::local(2);
    let second = seats.remove(1);
    let first = seats.remove(0).start(Host::<At<0>>::open()?)?;
    assert_ne!(first.rank(), second.start(Host::<At<1>>::open()?)?.rank());
    Ok(())
}
