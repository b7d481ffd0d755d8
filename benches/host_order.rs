//! What the check of order costs on the host backend: the same programs with `TYPED_NCCL_CHECK=off`
//! and `=order`, each in a process of its own. Ratios are what to look at.

use std::process::Command;
use std::time::Instant;

use typed_nccl::{Communicator, Device, Host, Result, Sum, Window};

/// Rounds of each program.
const ROUNDS: u32 = 4000;

fn main() -> Result<()> {
    if std::env::args().any(|arg| arg == "--inner") {
        for (name, micros) in inner()? {
            println!("{name}\t{micros}");
        }
        return Ok(());
    }
    let (off, on) = (run("off"), run("order"));
    println!("{:<44} {:>10} {:>10} {:>7}", "a round, 2 ranks", "off", "order", "ratio");
    for ((name, off), (_, on)) in off.into_iter().zip(on) {
        println!("{name:<44} {off:>7.2} us {on:>7.2} us {:>7.2}", on / off);
    }
    Ok(())
}

fn run(check: &str) -> Vec<(String, f64)> {
    let this = std::env::current_exe().expect("this program");
    let best = |_| {
        let output = Command::new(&this).arg("--inner").env("TYPED_NCCL_CHECK", check).output();
        let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
        let line = |line: &str| {
            let (name, micros) = line.split_once('\t').expect("two columns");
            (name.to_owned(), micros.parse().expect("a number"))
        };
        text.lines().map(line).collect::<Vec<(String, f64)>>()
    };
    (0..5).map(best).reduce(smaller).expect("five runs")
}

/// The smaller time of each.
fn smaller(a: Vec<(String, f64)>, b: Vec<(String, f64)>) -> Vec<(String, f64)> {
    a.into_iter().zip(b).map(|((name, a), (_, b))| (name, a.min(b))).collect()
}

fn inner() -> Result<Vec<(&'static str, f64)>> {
    let ranks = Host::spmd(2, |place| -> Result<Vec<(&'static str, f64)>> {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let (small, large) = (comm.window::<f32>(256)?, comm.window::<f32>(1 << 20)?);
        let (mut window, mut x) = (comm.window::<f32>(256)?, comm.device().zeros::<f32>(256)?);
        let put = |comm: &Communicator<_>, from: &Window<f32, _>, to: &Window<f32, _>| {
            comm.put_signal(from, peer, to.at(0))?;
            comm.wait_signal(peer)?;
            // The peer has it, and may be put to again.
            comm.signal(peer)?;
            comm.wait_signal(peer)
        };
        let target = comm.window::<f32>(1 << 20)?;
        let mut found = Vec::new();
        found.push((
            "all_reduce of a buffer of 1 KiB",
            time(&comm, |c| c.all_reduce_in_place(&mut x, Sum))?,
        ));
        found.push((
            "all_reduce of a window of 1 KiB",
            time(&comm, |c| c.all_reduce_in_place(&mut window, Sum))?,
        ));
        found.push(("put, wait, signal, wait: 1 KiB", time(&comm, |c| put(c, &small, &target))?));
        found.push(("put, wait, signal, wait: 4 MiB", time(&comm, |c| put(c, &large, &target))?));
        found.push((
            "launch on a window, sync",
            time(&comm, |c| {
                c.stream().launch(&mut window, |_, _| ())?;
                c.stream().sync()
            })?,
        ));
        comm.finish()?;
        Ok(found)
    })?;
    Ok(ranks.into_iter().next().unwrap_or_default())
}

/// Microseconds of a round.
fn time<D: Device>(
    comm: &Communicator<D>,
    mut round: impl FnMut(&Communicator<D>) -> Result<()>,
) -> Result<f64> {
    for _ in 0..100 {
        round(comm)?;
    }
    comm.stream().sync()?;
    comm.barrier()?;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        round(comm)?;
    }
    comm.stream().sync()?;
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
    comm.barrier()?;
    Ok(micros)
}
