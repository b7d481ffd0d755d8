//! A function that records operands says that they live as long as the group.

use typed_nccl::{Buffer, Group, Host, Result, Seat};

fn send<'e>(g: &mut Group<'e, Host>, x: &'e Buffer<f32, Host>) -> Result<()> {
    g.send(x, 0)
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let x = comm.device().zeros::<f32>(8)?;
    let mut y = comm.device().zeros::<f32>(8)?;
    comm.group(|g| {
        send(g, &x)?;
        g.recv(&mut y, 0)
    })?;
    comm.finish()
}
