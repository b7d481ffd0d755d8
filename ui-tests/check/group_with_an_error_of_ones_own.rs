//! A closure that returns an error of its own is passed to `try_group`.

use typed_nccl::{Buffer, Communicator, Error, Host, Seat, group};

#[derive(Debug)]
enum Stop {
    Ours(Error),
    NoPeer,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

fn pass(comm: &mut Communicator<Host>, to: Option<usize>) -> Result<(), Stop> {
    let x = comm.device().zeros::<f32>(4)?;
    group(comm, |g| {
        g.send(&x, to.ok_or(Stop::NoPeer)?)?;
        Ok(())
    })
}

fn main() -> Result<(), Stop> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let stopped = pass(&mut comm, None);
    assert!(matches!(stopped, Err(Stop::NoPeer)));
    Ok(())
}
