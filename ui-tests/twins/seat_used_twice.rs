//! A seat is taken once.

use typed_nccl::{At, Host, Result, Seat};

fn main() -> Result<()> {
    let mut seats = Seat::local(2);
    let seat = seats.remove(0);
    let first = seat.start(Host::<At<0>>::open()?)?;
    let second = seats.remove(0).start(Host::<At<1>>::open()?)?;
    assert_ne!(first.rank(), second.rank());
    Ok(())
}
