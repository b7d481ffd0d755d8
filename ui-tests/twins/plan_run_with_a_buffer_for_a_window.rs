//! A plan that puts into a window is given a window.

use typed_nccl::{Communicator, Device, Result, plan};

plan! {
    pub post<T: Element>(n: Ranks, len: usize) {
        inout window u: [T; 2 * len];
        signal there, back;
        put u[..len] to (rank + 1) % n into u[len..] signal there;
        wait there from (rank - 1) % n;
        signal back to (rank - 1) % n;
        wait back from (rank + 1) % n;
    }
}

fn run<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let mut post = post::bind::<f32, _>(comm, post::Params { len: 3 })?;
    let mut u = comm.window::<f32>(6)?;
    post.run(comm, post::Buffers { u: &mut u })
}

fn main() {}
