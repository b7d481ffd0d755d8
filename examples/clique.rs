//! One thread, with devices from the command line: `cargo run --example clique -- 0 2 5 7`.

use typed_nccl::{Avg, Clique, Host, Result};

fn main() -> Result<()> {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let devices = if given.is_empty() { (0..8).collect() } else { given };
    let mut clique = Clique::init(Host::open_each(&devices)?)?; // one thread, one grouped init

    let mut grads = clique.alloc::<f32>(1 << 10)?; // one buffer per device, each on its device
    clique.each(&mut grads, |lane, mut g| g.copy_from(&[lane.index() as f32; 1 << 10]))?;
    for _ in 0..1000 {
        clique.all_reduce_in_place(&mut grads, Avg)?; // one group over every device: none is forgotten
    }

    // Operations that differ by rank: a ring, recorded for every rank, issued as one group.
    let mut halo = clique.alloc::<f32>(1 << 10)?;
    clique.group((&grads, &mut halo), |lane, (mine, from_left)| {
        let (left, right) = (lane.ring(-1), lane.ring(1));
        lane.send(mine, right)?;
        lane.recv(from_left, left)
    })?;

    clique.wait()?; // polls every communicator, within the deadline
    let mean = (clique.size() - 1) as f32 / 2.0;
    let found = clique.to_host(&halo)?;
    assert!(found.iter().flatten().all(|&x| x == mean), "{found:?}");
    println!("{} devices, all hold {mean}: verified", clique.size());
    clique.finish() // grouped: a barrier inside NCCL since 2.31
}
