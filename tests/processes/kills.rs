//! A process killed at a random moment: every other one ends soon, with an error that names it.
//!
//! `cargo run -p xtask -- kills 200 [SEED]` kills 200 of them, on the machine's own GPUs with
//! `KILLS_ON_GPUS=2`.

use std::env;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, launch, plan, tag};

use crate::machine::{Run, Test, on_a_new_stage};
use crate::ranks::{Ended, Ranks};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a_process_that_is_killed_at_any_moment",
        program: lives,
        test: |run| {
            let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
            let gpus = number("KILLS_ON_GPUS");
            let mut random = number("KILLS_SEED").unwrap_or(1);
            let mut times = Times::default();
            for _ in 0..number("KILLS").unwrap_or(6) {
                // The dead leave their memory there.
                on_a_new_stage();
                let kill = Kill::draw(&mut random, gpus);
                times.add(&kill, &kill.happens(run, gpus.is_some()));
            }
            times.print();
            if let Some(limit) = number("KILLS_WITHIN") {
                let slowest = times.ended.last().copied().unwrap_or_default();
                assert!(slowest <= Duration::from_millis(limit), "one took {slowest:?}");
            }
        },
    },
    Test {
        name: "a_process_that_is_killed_before_it_signals",
        program: || match launch!(awaits) {
            Err(Error::PeerFailed(_)) => Ok(()),
            outcome => outcome,
        },
        test: |run| {
            let mut ranks = run.ranks(2);
            ranks.hears(0, "waits");
            ranks.kill(1);
            let killed = Instant::now();
            let survivor = ranks.ended().swap_remove(0);
            assert!(survivor.status.success(), "{survivor:?}");
            // No rank raises the signal for which the stream waits, so the process ends without the
            // destructors that would wait for the stream, and does not first wait for it, which
            // took eight seconds.
            assert!(survivor.said.contains("without the destructors"), "{survivor:?}");
            assert!(survivor.at.saturating_duration_since(killed) < PATIENCE, "{survivor:?}");
        },
    },
];

/// More than an end takes that waits for nothing, and less than one that waits for the stream.
const PATIENCE: Duration = Duration::from_secs(7);

/// How long the ranks wait for one that never came.
const DEADLINE: Duration = Duration::from_secs(8);

/// The phases through which ranks go; each is printed when it begins.
const PHASES: [&str; 5] = ["connect", "work", "split", "bind", "finish"];

/// Which rank is killed, and when.
#[derive(Debug)]
struct Kill {
    size: usize,
    victim: usize,
    /// Counted from the given occurrence of this phase, or else from the start.
    phase: Option<(&'static str, u64)>,
    after: Duration,
}

impl Kill {
    fn draw(random: &mut u64, gpus: Option<u64>) -> Self {
        let mut below = |bound| below(random, bound);
        let size = gpus.unwrap_or_else(|| 2 + below(3));
        let victim = below(size) as usize;
        let phase = PHASES.get(below(PHASES.len() as u64 + 1) as usize);
        let phase = phase.map(|phase| (*phase, below(3)));
        let most = match phase {
            None => 1_500_000,
            Some(("connect", _)) => 40_000,
            Some(("finish", _)) => 2_000,
            Some(_) => 10_000,
        };
        let after = Duration::from_micros(below(most));
        Self { size: size as usize, victim, phase, after }
    }

    /// How long afterwards each of the others got the error, and ended.
    fn happens(&self, run: &Run, on_gpus: bool) -> Vec<Survived> {
        let mut ranks = match on_gpus {
            true => Ranks::start(self.size, |_| run.bare()),
            false => run.ranks(self.size),
        };
        if let Some((phase, turn)) = self.phase {
            ranks.hears(self.victim, &format!("at {phase} {turn}\n"));
        }
        thread::sleep(self.after);
        ranks.kill(self.victim);
        let (killed, at) = (Instant::now(), now());
        let ended = ranks.ended().into_iter().enumerate();
        let others = ended.filter(|(rank, _)| *rank != self.victim);
        others.map(|(rank, ended)| self.survived(rank, &ended, killed, at)).collect()
    }

    fn survived(&self, rank: usize, ended: &Ended, killed: Instant, at: Duration) -> Survived {
        let said = &ended.said;
        let context = format!("{self:?}, rank {rank}: {said}");
        assert_eq!(ended.status.code(), Some(0), "{context}");
        let told = said.lines().find_map(|line| line.strip_prefix("told "));
        let (micros, what) = told.and_then(|told| told.split_once(' ')).expect(&context);
        let micros = micros.parse().expect("a number");
        // A rank's number differs in its half.
        let lost = [("World", self.victim), ("Half", self.victim / 2)];
        let is_lost = lost.iter().any(|(whose, victim)| {
            // Others may have left because of it before this one learnt of it.
            let ranks = what.strip_prefix(whose).and_then(|what| Some(what.split_once(':')?.0));
            ranks.is_some_and(|ranks| ranks.split(' ').any(|rank| rank == victim.to_string()))
        });
        // A rank may have left, with this reason.
        let left = |(_, victim)| what.contains(&format!("rank {victim} left: its process "));
        let is_lost = is_lost || lost.into_iter().any(left);
        if is_lost {
            assert!(what.contains("process"), "{context}");
        } else {
            // A process that never came cannot be detected otherwise.
            assert!(what.contains(&format!("rank {} is missing", self.victim)), "{context}");
        }
        let told = Duration::from_micros(micros).saturating_sub(at);
        Survived { is_lost, told, ended: ended.at.saturating_duration_since(killed) }
    }
}

struct Survived {
    /// Whether it learnt that the other is lost, and not that it never came.
    is_lost: bool,
    told: Duration,
    ended: Duration,
}

#[derive(Default)]
struct Times {
    kills: usize,
    told: Vec<Duration>,
    ended: Vec<Duration>,
    absent: usize,
}

impl Times {
    fn add(&mut self, kill: &Kill, others: &[Survived]) {
        self.kills += 1;
        let lost = || others.iter().filter(|other| other.is_lost);
        self.told.extend(lost().map(|other| other.told));
        self.ended.extend(lost().map(|other| other.ended));
        self.absent += others.len() - lost().count();
        if let Some(slowest) = others.iter().max_by_key(|other| other.ended) {
            let Survived { told, ended, .. } = slowest;
            println!("{kill:?}: the slowest was told after {told:.1?} and over after {ended:.1?}");
        }
    }

    fn print(&mut self) {
        let Self { kills, told, ended, absent } = self;
        println!("{kills} kills, {} times a rank was told of the loss", told.len());
        for (what, times) in [("told", told), ("over", ended)] {
            times.sort_unstable();
            if let (Some(first), Some(last)) = (times.first(), times.last()) {
                let (median, most) = (times[times.len() / 2], times[times.len() * 95 / 100]);
                println!(
                    "{what} after: {first:.1?} at least, {median:.1?} in the middle, {most:.1?} for 95 of 100, {last:.1?} at most"
                );
            }
        }
        println!("{absent} times one that never came was missing at the deadline of {DEADLINE:?}");
    }
}

pub(crate) fn below(random: &mut u64, bound: u64) -> u64 {
    // A step of Knuth's generator, whose upper bits are the good ones.
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*random >> 33) % bound
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

tag!(Half);

plan! {
    /// Around the ring.
    around(n: Ranks) {
        in a: [i64; 8];
        out b: [i64; 8];
        send a to (rank + 1) % n into b;
    }
}

/// Meets the others again and again, until one of them is lost. Ends well if that is the error.
fn lives() -> Result<()> {
    let config = || CommConfig::builder().deadline(DEADLINE).build();
    for turn in 0.. {
        begins("connect", turn);
        let outcome = launch!(move |comm| works(comm, turn), config());
        let Err(error) = outcome else { continue };
        tell(&error);
        return match error {
            Error::PeerFailed(_) | Error::Timeout(_) => Ok(()),
            other => Err(other),
        };
    }
    Ok(())
}

fn begins(phase: &str, turn: u64) {
    println!("at {phase} {turn}");
}

/// Prints the time and the error; the first one counts.
fn tell(error: &Error) {
    let micros = now().as_micros();
    match error {
        Error::PeerFailed(failed) => {
            let lost: String = failed.lost.iter().map(|rank| format!(" {rank}")).collect();
            println!("told {micros} {} lost{lost}: {error}", failed.name);
        }
        _ => println!("told {micros} {error}"),
    }
}

/// Everything that ranks do together.
fn works<D: Device>(mut comm: Communicator<D>, turn: u64) -> Result<()> {
    let outcome = (0..2).try_for_each(|_| {
        begins("work", turn);
        moves(&mut comm)?;
        begins("split", turn);
        splits(&mut comm)?;
        begins("bind", turn);
        runs(&mut comm)
    });
    outcome.inspect_err(tell)?;
    begins("finish", turn);
    comm.finish().inspect_err(tell)
}

/// Rank 0 waits for something that rank 1 never does.
fn awaits<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let window = comm.window::<i64>(8)?;
    if comm.rank().index() == 0 {
        comm.wait_signal(1)?;
        println!("waits");
        comm.stream().sync()?;
    }
    thread::sleep(Duration::from_secs(600));
    comm.close(window).map(drop)
}

pub(crate) fn moves<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let (rank, size) = (comm.rank().index(), comm.size());
    let mut x = comm.device().from_slice(&vec![rank as i64; 1000])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let sum = (0..size as i64).sum::<i64>();
    assert_eq!(x.to_vec()?, vec![sum; 1000]);
    let mut y = comm.device().zeros::<i64>(1000)?;
    let (left, right) = (comm.ring(-1), comm.ring(1));
    comm.group(|group| {
        group.send(&x, right)?;
        group.recv(&mut y, left)
    })?;
    comm.barrier()?;
    let (window, source) = (comm.window::<i64>(8)?, comm.window::<i64>(8)?);
    comm.put_signal(&source, right, window.at(0))?;
    comm.wait_signal(left)?;
    let ranks = comm.gather_values(&rank)?;
    assert_eq!(ranks.len(), size);
    comm.sync(comm.stream())?;
    comm.close(window)?;
    comm.close(source)?;
    Ok(())
}

/// In two halves, perhaps of one rank.
pub(crate) fn splits<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let color = comm.rank().index() as u32 % 2;
    let half = comm.split::<Half>(color, 0)?;
    let mut x = half.device().from_slice(&[1_i64; 100])?;
    half.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, vec![half.size() as i64; 100]);
    half.finish()
}

pub(crate) fn runs<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let a = comm.device().from_slice(&[comm.rank().index() as i64; 8])?;
    let mut b = comm.device().zeros::<i64>(8)?;
    let mut plan = around::bind(comm)?;
    plan.run(comm, around::Buffers { a: &a, b: &mut b })?;
    assert_eq!(b.to_vec()?, [comm.ring(-1).index() as i64; 8]);
    Ok(())
}
