//! The library's own kernels, on GPUs.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use typed_nccl::kernels::Way;
use typed_nccl::{Communicator, Cuda, Error, Result, Sum, World};

use crate::common::{busy, connect, ranks, says, soon};

#[path = "../kernels/body.rs"]
mod body;

/// Whether the machine supports them; reports if not.
fn there<W: World>(comm: &Communicator<W>) -> Result<bool> {
    match comm.kernels() {
        Ok(_) => Ok(true),
        Err(Error::Unsupported(why)) => {
            println!("SKIPPED: {why}");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// On all GPUs, if there are kernels.
macro_rules! on_all {
    (|$comm:ident| $body:expr) => {
        Cuda::spmd(ranks()?, |place| {
            let $comm = connect(place, 60)?;
            if !there(&$comm)? {
                return $comm.finish();
            }
            $body
        })
        .map(drop)
    };
}

pub(crate) fn every_type() -> Result<()> {
    on_all!(|comm| body::every_type(comm))
}

pub(crate) fn every_size() -> Result<()> {
    on_all!(|comm| body::every_size(comm, busy(2 << 20, 32)))
}

pub(crate) fn streams_and_graphs() -> Result<()> {
    on_all!(|comm| body::streams_and_graphs(comm, busy(2000, 100) as u32))
}

pub(crate) fn many_at_once() -> Result<()> {
    on_all!(|comm| body::many_at_once(comm))
}

pub(crate) fn messages() -> Result<()> {
    on_all!(|comm| body::messages(comm, busy(300, 20)))
}

pub(crate) fn rms_norm() -> Result<()> {
    on_all!(|comm| body::rms_norm(comm))
}

/// A kernel waits for a rank that never launches: its communicator's abort ends it at once, and the
/// GPU continues.
pub(crate) fn an_abort_ends_a_kernel_that_waits() -> Result<()> {
    let launched = &AtomicUsize::new(1);
    on_all!(|comm| {
        let kernels = comm.kernels()?;
        let (device, rank) = (comm.device().clone(), comm.rank().index());
        if rank == 0 {
            while launched.load(Relaxed) < comm.size() {
                std::thread::yield_now();
            }
            comm.abort();
            return Ok(());
        }
        let mut x = typed_nccl::Device::from_slice(&device, &[1.0_f32; 70_000])?;
        for way in [Way::OneShot, Way::TwoShot, Way::OneShotInBlocks] {
            kernels.always(way).all_reduce_in_place(&comm, &mut x, Sum)?;
        }
        let started = Instant::now();
        launched.fetch_add(1, Relaxed);
        let told = comm.sync(comm.stream());
        says(&told.expect_err("rank 0 has aborted"), &["rank 0"]);
        drop(comm);
        soon(started);
        // The GPU is free again.
        let y = typed_nccl::Device::from_slice(&device, &[2.0_f32; 8])?;
        assert_eq!(y.to_vec()?, [2.0; 8]);
        Ok(())
    })
}

/// Memory that a kernel writes to is not unmapped while it runs, however long that is.
pub(crate) fn an_abort_waits_for_what_runs() -> Result<()> {
    if std::env::var_os("FAKE_CUDA_DEVICES").is_none() {
        println!("SKIPPED: kernels end at once where nothing keeps them");
        return Ok(());
    }
    let long = std::time::Duration::from_millis(600);
    // SAFETY: no other thread of this process reads the environment now.
    unsafe { std::env::set_var("FAKE_CUDA_LINGER", long.as_millis().to_string()) };
    let driver = std::env::var_os("TYPED_NCCL_NVRTC").expect("the double is set with the devices");
    let double = fake_cuda::File::at(driver).load();
    let before = double.begun();
    on_all!(|comm| {
        let kernels = comm.kernels()?;
        let others_run = || {
            while double.begun() - before < comm.size() - 1 {
                std::thread::yield_now();
            }
        };
        if comm.rank().index() == 0 {
            others_run();
            comm.abort();
            return Ok(());
        }
        let mut x = typed_nccl::Device::zeros::<f32>(comm.device(), 80)?;
        let started = Instant::now();
        kernels.all_reduce_in_place(&comm, &mut x, Sum)?;
        others_run();
        comm.abort();
        assert!(started.elapsed() >= long, "the kernel runs after NCCL's abort");
        Ok(())
    })
}

/// Ranks with different launches get an error, and none hangs.
pub(crate) fn launches_that_differ() -> Result<()> {
    on_all!(|comm| {
        let kernels = comm.kernels()?;
        let is_first = comm.rank().index() == 0;
        let mut x = typed_nccl::Device::zeros::<f32>(comm.device(), 4096)?;
        // The rank that finds it informs all, including one that has not called.
        comm.barrier()?;
        let started = Instant::now();
        let called = match is_first {
            true => kernels.all_reduce_in_place(&comm, &mut x.slice_mut(0..64), Sum),
            false => kernels.all_reduce_in_place(&comm, &mut x, Sum),
        };
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("they differ"), &["all_reduce of 64 f32", "all_reduce of 4096 f32"]);
        drop(comm);
        soon(started);
        Ok(())
    })
}

/// The first two ranks exchange mismatched legs, for which neither waits: the leg is named.
pub(crate) fn legs_that_cross() -> Result<()> {
    type Leg = (usize, Option<usize>, Option<usize>);
    let cases: [([&[Leg]; 2], &str); 4] = [
        (
            [&[(8, Some(1), None), (8, None, Some(1))], &[(8, Some(0), None), (8, None, Some(0))]],
            "leg 0 of an exchange, which rank 0 sends to rank 1 and rank 1 expects from nobody,",
        ),
        (
            [&[(8, None, None), (8, Some(1), None)], &[(8, None, Some(0)), (8, None, Some(0))]],
            "leg 0 of an exchange, which rank 1 expects from rank 0 and rank 0 sends to nobody,",
        ),
        (
            [&[(8, Some(1), None), (70, None, None)], &[(8, None, Some(0)), (7, None, None)]],
            "leg 1 of an exchange",
        ),
        (
            [&[(8, Some(1), None)], &[(8, None, Some(0)), (8, None, Some(0))]],
            "how many legs an exchange has",
        ),
    ];
    cases.into_iter().try_for_each(|(legs, told)| {
        on_all!(|comm| {
            let (kernels, rank) = (comm.kernels()?, comm.rank().index());
            let x = typed_nccl::Device::zeros::<f32>(comm.device(), 80)?;
            let mut all = (0..2)
                .map(|_| typed_nccl::Device::zeros::<f32>(comm.device(), 80))
                .collect::<Result<Vec<_>>>()?;
            // The rank that finds it informs all, including one that has not called.
            comm.barrier()?;
            let started = Instant::now();
            let mut exchange = kernels.exchange(&comm);
            for ((len, to, from), y) in legs[rank.min(1)].iter().zip(&mut all) {
                let peer = |peer: &Option<usize>| {
                    peer.filter(|_| rank < 2).and_then(|peer| comm.peer(peer).ok())
                };
                exchange =
                    exchange.leg(x.slice(0..*len), peer(to), y.slice_mut(0..*len), peer(from));
            }
            // A rank that waits for no other gets the error later.
            let found = exchange
                .run()
                .and_then(|()| comm.sync(comm.stream()))
                .and_then(|()| comm.barrier());
            says(&found.expect_err("they differ"), &[told]);
            drop(comm);
            soon(started);
            Ok(())
        })
    })
}

/// One rank uses a kernel, another NCCL's collective.
pub(crate) fn a_kernel_beside_nccls() -> Result<()> {
    on_all!(|comm| {
        let kernels = comm.kernels()?;
        let mut x = typed_nccl::Device::zeros::<f32>(comm.device(), 64)?;
        // The rank that finds it informs all, including one that has not called.
        comm.barrier()?;
        let started = Instant::now();
        let called = match comm.rank().index() {
            0 => kernels.all_reduce_in_place(&comm, &mut x, Sum),
            _ => comm.all_reduce_in_place(&mut x, Sum),
        };
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("they differ"), &["a kernel of this library or not"]);
        drop(comm);
        soon(started);
        Ok(())
    })
}
