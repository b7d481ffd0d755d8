//! Host copies wait for the conflicting uses, and for no others.

use std::sync::mpsc::channel;

use typed_nccl::{Host, Result};

use super::gate::Gate;

#[test]
fn a_copy_to_the_host_waits_for_writers_only() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    let gate = Gate::new();
    let (reads, writes) = (gate.pass(), gate.pass());
    stream.launch(&x, |_, ()| reads())?;
    assert_eq!(x.to_vec()?, [1, 2, 3]);
    assert!(!gate.is_open());
    stream.launch(&mut x, |x, ()| {
        writes();
        x.fill(4);
    })?;
    gate.open_later();
    let mut part = [0; 2];
    x.slice(1..3).copy_to(&mut part)?;
    assert!(gate.is_open());
    assert_eq!(part, [4; 2]);
    Ok(())
}

#[test]
fn a_copy_from_the_host_waits_for_readers() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let mut x = host.from_slice(&[1, 2, 3])?;
    let (send, seen) = channel();
    let gate = Gate::new();
    let pass = gate.pass();
    stream.launch(&x, move |x, ()| {
        pass();
        send.send(x.to_vec()).expect("the test waits");
    })?;
    gate.open_later();
    x.slice_mut(0..1).copy_from(&[9])?;
    assert!(gate.is_open());
    assert_eq!(seen.recv(), Ok(vec![1, 2, 3]));
    assert_eq!(x.to_vec()?, [9, 2, 3]);
    Ok(())
}
