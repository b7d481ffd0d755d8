//! Settings that ranks in different processes must share, and the refusals.

use std::env;
use std::thread;
use std::time::Duration;

use fake_nccl::File;
use nccl_sys::{BOUND, ENVIRONMENT, Version};
use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Values};
use typed_nccl::{
    CommConfig, Communicator, Cuda, Device, Error, Result, Seat, Sum, UniqueId, World, launch, tag,
};

use crate::machine::{Run, Test, rccl};
use crate::ranks::Ranks;
use crate::raw::{meet, number};

tag!(Rows, Columns);

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "another_release_of_nccl",
        program: || {
            if is_odd_one() {
                let double = env::var_os(ENVIRONMENT).expect("the test names the double");
                File::at(double).load().set_version(Version::new(2, 31, 2).code() as i32);
            }
            launch!(ends)
        },
        test: |run| differ(run, "ranks 0 and 1 run NCCL 2.32.3 and NCCL 2.31.2; run one release"),
    },
    Test {
        name: "rccl_beside_nccl",
        program: || launch!(ends),
        test: |run| {
            let odd = |rank: usize| {
                let mut command = run.on_gpus();
                if rank == 1 {
                    command.env(ENVIRONMENT, rccl(BOUND).path());
                }
                command
            };
            alike(Ranks::start(2, odd), "ranks 0 and 1 run NCCL 2.32.3 and RCCL 2.32.3; run one");
        },
    },
    Test {
        name: "another_environment_of_nccl",
        program: || launch!(ends),
        test: |run| {
            let odd = |rank: usize| {
                let mut command = run.on_gpus();
                if rank == 1 {
                    command.env("NCCL_ALGO", "Ring").env("NCCL_DEBUG_SUBSYS", "ENV");
                }
                command
            };
            let words = "ranks 0 and 1 run NCCL 2.32.3 and NCCL 2.32.3 with NCCL_ALGO=Ring; run";
            alike(Ranks::start(2, odd), words);
        },
    },
    Test {
        name: "another_configuration",
        program: || {
            let signals = if is_odd_one() { 2 } else { 1 };
            launch!(ends, CommConfig::builder().signals(signals).build())
        },
        test: |run| differ(run, "ranks 0 and 1 configure it with (1, 1) and (1, 2) contexts"),
    },
    Test {
        name: "another_split_share",
        program: || launch!(ends, CommConfig::builder().split_share(is_odd_one()).build()),
        test: |run| {
            differ(run, "ranks 0 and 1 configure `CommConfig::split_share` (NCCL's splitShare)")
        },
    },
    Test {
        name: "another_label",
        program: || match is_odd_one() {
            true => named::<Columns>(),
            false => named::<Rows>(),
        },
        test: |run| {
            differ(run, "ranks 0 and 1 name the communicator differently, Rows and Columns")
        },
    },
    Test {
        name: "one_gpu_for_two_processes",
        program: || launch!(ends),
        test: |run| {
            let on_one = |_: usize| {
                let mut command = run.on_gpus();
                command.env("CUDA_VISIBLE_DEVICES", "2");
                command
            };
            let words = "ranks 0 and 1 are both on the cuda device at PCI";
            alike(Ranks::start(2, on_one), words);
        },
    },
    Test {
        name: "two_ranks_in_each_of_two_processes_by_an_id",
        program: two_each,
        test: |run| run.ranks(2).succeed(),
    },
    Test {
        name: "a_plan_that_differs",
        program: || launch!(plans_differ),
        test: |run| run.ranks(3).succeed(),
    },
    Test {
        name: "another_window_for_a_plan",
        program: || {
            let deadline = Duration::from_secs(20);
            launch!(windows_differ, CommConfig::builder().deadline(deadline).signals(2).build())
        },
        test: |run| {
            for turn in 0..2 {
                let start = |_: usize| {
                    let mut command = run.on_gpus();
                    command.env(TURN, turn.to_string());
                    command
                };
                let mut ranks = Ranks::start(3, start);
                (0..3).for_each(|rank| ranks.hears(rank, TOLD));
                (0..3).for_each(|rank| ranks.kill(rank));
                drop(ranks.ended());
            }
        },
    },
];

fn is_odd_one() -> bool {
    env::var("RANK").is_ok_and(|rank| rank == "1")
}

fn ends<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.finish()
}

fn named<L: typed_nccl::Label>() -> Result<()> {
    let builder = Communicator::builder().seat(Seat::from_env()?).device(Cuda::local()?);
    builder.label::<L>().build().connect()?.finish()
}

/// Three ranks, of which rank 1 differs.
fn differ(run: &Run, words: &str) {
    alike(run.ranks(3), words);
}

/// Every rank ends with the same error.
#[track_caller]
fn alike(ranks: Ranks, words: &str) {
    let ended = ranks.ended();
    let errors: Vec<&str> = ended
        .iter()
        .map(|ended| ended.said.lines().find(|line| line.starts_with("Error: ")).unwrap_or(""))
        .collect();
    assert!(errors[0].contains(words), "`{words}` is missing: {ended:?}");
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    assert!(ended.iter().all(|ended| ended.status.code() == Some(1)), "{ended:?}");
}

fn sum<W: World>(comm: &Communicator<W>, own: usize) -> Result<usize> {
    let mut x = comm.device().from_slice(&[own as u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    Ok(x.to_vec()?[0] as usize)
}

/// The program's own way to pass an id: a file.
fn two_each() -> Result<()> {
    let process = number("RANK");
    let id = meet(process == 0, || UniqueId::new().expect("it listens").to_bytes().to_vec());
    let id = UniqueId::from_bytes(id.try_into().expect("an id is so long"));
    let rank = |rank: usize| -> Result<()> {
        let mut comm = Seat::with_id(id, rank, 4)?.init(Cuda::any(rank as u32)?)?;
        assert_eq!(sum(&comm, rank)?, 6);
        // Each process, and across them.
        for color in [rank / 2, rank % 2] {
            let child = comm.split::<Rows>(color as u32, 0)?;
            assert_eq!((child.size(), sum(&child, 1)?), (2, 2));
            child.finish()?;
        }
        let (window, source) = (comm.window::<u64>(1)?, comm.window::<u64>(1)?);
        comm.put_signal(&source, comm.ring(1), window.at(0))?;
        comm.wait_signal(comm.ring(-1))?;
        comm.close(window)?;
        comm.close(source)?;
        comm.finish()
    };
    thread::scope(|scope| {
        let ranks = [0, 1].map(|one| scope.spawn(move || rank(2 * process + one)));
        ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
    })
}

/// A plan for other sizes on rank 1, and one that does not fit there.
fn plans_differ<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let mut shift = PlanBuilder::new("shift");
    shift.ranks(1..);
    let len = shift.param("len", 1..);
    let (a, b) = (shift.input::<f32>("a", len), shift.output::<f32>("b", len));
    let net = shift.stream("net");
    shift.on(net).transfer(a, ring(1), b);
    let shift = shift.check().expect("a plan that is right");
    for other in [3, 0] {
        let values = Values::new().number("len", if is_odd_one() { other } else { 2 });
        let error = plan::bind(&mut comm, shift.plan(), &values).map(drop).expect_err("differs");
        let refuses = other == 0 && is_odd_one();
        assert_eq!(matches!(error, Error::BadPlan(_)), refuses, "{error}");
        assert_eq!(matches!(error, Error::PlansDiffer(_)), !refuses, "{error}");
        // One report, except for a rank with its own refusal.
        let all = comm.gather_values(&error.to_string())?;
        assert!(
            all.iter().all(|one| refuses || *one == error.to_string() || other == 0),
            "{all:?}"
        );
    }
    let values = Values::new().number("len", 2);
    plan::bind(&mut comm, shift.plan(), &values)?;
    comm.finish()
}

/// Names the late ranks.
const TURN: &str = "PROCESSES_TEST_TURN";

/// Printed by a rank that has the error.
const TOLD: &str = "has been told";

/// Another window on rank 1, which comes first or last.
fn windows_differ<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let mut pass = PlanBuilder::new("pass");
    pass.ranks(2..);
    let a = pass.window().input::<f32>("a", 2);
    let w = pass.window().output::<f32>("w", 2);
    let (came, read) = (pass.signal("came"), pass.signal("read"));
    let net = pass.stream("net");
    pass.on(net).put(a, ring(1), w).signal(came);
    pass.on(net).wait([came.from(ring(-1))]);
    pass.on(net).signal(read, ring(-1));
    pass.on(net).wait([read.from(ring(1))]);
    let pass = pass.check().expect("a plan for any number of ranks");
    let a = comm.window::<f32>(2)?;
    let (mut first, mut second) = (comm.window::<f32>(2)?, comm.window::<f32>(2)?);
    let mut bound = plan::bind(&mut comm, pass.plan(), &Values::new())?;
    for run in 0..6 {
        // Any window that is the same on all ranks works, also if it changes.
        let w = if run % 3 == 0 { &mut second } else { &mut first };
        bound.on(&comm).read("a", &a).write("w", w).run(&mut ())?;
        comm.sync(comm.stream())?;
        comm.barrier()?;
    }
    let is_late = is_odd_one() == env::var(TURN).is_ok_and(|turn| turn == "0");
    if is_late {
        thread::sleep(Duration::from_millis(500));
    }
    let w = if is_odd_one() { &mut second } else { &mut first };
    let outcome = bound.on(&comm).read("a", &a).write("w", w).run(&mut ());
    let mut outcome = outcome.and_then(|()| comm.sync(comm.stream()));
    while outcome.is_ok() {
        // A barrier that all have reached counts, although this rank has learnt more since.
        outcome = comm.barrier();
    }
    let error = outcome.expect_err("puts would miss").to_string();
    println!("{error}");
    for words in ["plan `pass`: `w` is window #", "gave window #", "for the same run"] {
        assert!(error.contains(words), "`{words}` is missing in: {error}");
    }
    println!("{TOLD}");
    // The others must get the error before they learn that this rank has gone.
    loop {
        thread::park();
    }
}
