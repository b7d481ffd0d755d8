//! Runs one program in whatever environment it is started.

use std::fmt::Display;
use std::io::{self, Write as _};

use super::others::Others;
use super::spmd::{self, Outcome};
use super::{Place, own_device, start};
use crate::error::{Error, InitFailed, LaunchFault, Site, SizeVariable};
use crate::launcher::{self, Variables};
use crate::seat::MOST;
use crate::{AnyDevice, CommConfig, Communicator, Host, Rank, Result};

/// Runs `fn body<W: World>(comm: Communicator<W>) -> Result<T>` on every rank, and returns a rank's
/// value.
///
/// | started as | ranks |
/// |---|---|
/// | `program` | 4 host ranks, threads of this process |
/// | `TYPED_NCCL=host:8 program` | 8 of them |
/// | `TYPED_NCCL=host:8,processes program` | 8 host ranks, a process each (Linux) |
/// | `TYPED_NCCL=cuda program` | a process for each GPU of this machine; `cuda:2`: GPUs 0 and 1 |
/// | `TYPED_NCCL=cuda:2,survive program` | the same; a rank that fails does not end the others |
/// | `TYPED_NCCL=cuda-threads:2 program` | GPUs 0 and 1, threads of this process |
/// | `torchrun --no_python .. program`, `srun ..`, `mpirun ..` | one rank, on its own GPU |
/// | the same with `TYPED_NCCL=host`, or without any GPU | one host rank |
///
/// The body is generic over its device, since it is compiled for the host and for GPUs. A body for
/// the host alone, `fn body<Tag>(comm: Communicator<Host<Tag>>)`, is launched by
/// `launch!(Host: body)`: its ranks are on the host, also where there are GPUs.
/// `launch!(body, config)` configures the communicator with a
/// [`CommConfig`](crate::CommConfig), such as a deadline. The body's error is ours or one that ours
/// converts into, such as anyhow's or `Box<dyn Error + Send + Sync>`. In tests use
/// [`spmd`](crate::spmd), which takes the number of ranks as an argument.
///
/// With `TYPED_NCCL=cuda` or `host:8,processes` this process starts the ranks: the same program
/// with the same arguments, once for each. It prefixes each line that they print with the rank,
/// passes signals on, and ends the other ranks when one fails. It names the rank whose failure no
/// other rank caused, whichever ended first, and ends with that rank's exit code. Code after
/// `launch!` runs only in the ranks. Ranks have no standard input.
///
/// With `,survive` the other ranks continue when one fails, for programs that
/// [recover](crate::Communicator::recover): standard error names the failed rank, and the program
/// succeeds if one of the others did. Threads always continue; for them the option
/// (`host:8,survive`, `cuda-threads:2,survive`) makes `launch!` return `Ok`.
///
/// A process uses the GPU at its local rank, or the only one that it sees. Where there is no GPU at
/// all, rank 0 says on standard error that the ranks are on the host; ranks of one job that differ
/// in that are [`Error::InitFailed`](crate::Error::InitFailed). The guide has complete files for
/// each launcher.
///
/// ```
/// use typed_nccl::{Communicator, Result, World, launch};
///
/// fn main() -> Result<()> {
///     launch!(body)
/// }
///
/// fn body<W: World>(comm: Communicator<W>) -> Result<()> {
///     comm.barrier()?;
///     comm.finish()
/// }
/// ```
///
/// ```
/// # use typed_nccl::{Communicator, Result, World};
/// use std::time::Duration;
///
/// use typed_nccl::{CommConfig, launch};
///
/// # fn main() -> Result<()> {
/// launch!(body, CommConfig::builder().deadline(Duration::from_secs(30)).build())
/// # }
/// # fn body<W: World>(comm: Communicator<W>) -> Result<()> {
/// #     assert_eq!(comm.deadline(), Duration::from_secs(30));
/// #     comm.finish()
/// # }
/// ```
///
/// A body with more arguments is called by a closure, which all ranks share:
///
/// ```
/// use typed_nccl::{Communicator, Result, World, launch};
///
/// fn main() -> Result<()> {
///     let steps: u32 = "100".parse().expect("a number");
///     launch!(|comm| train(comm, steps))
/// }
///
/// fn train<W: World>(comm: Communicator<W>, steps: u32) -> Result<()> {
///     // ..
///     # assert_eq!(steps, 100);
///     comm.finish()
/// }
/// ```
///
/// A body whose closures compute on the host:
///
/// ```
/// use typed_nccl::{Communicator, Host, Result, Sum, launch};
///
/// fn main() -> Result<()> {
///     launch!(Host: body)
/// }
///
/// fn body<Tag>(comm: Communicator<Host<Tag>>) -> Result<()> {
///     let mut x = comm.device().zeros::<f32>(8)?;
///     comm.stream().launch(&mut x, |x, ()| x.fill(0.5))?;
///     comm.all_reduce_in_place(&mut x, Sum)?;
///     assert_eq!(x.to_vec()?, [0.5 * comm.size() as f32; 8]);
///     comm.finish()
/// }
/// ```
///
/// The value is that of this process's rank; where ranks are threads, of rank 0. `T` is usually
/// `()`:
///
/// ```
/// use typed_nccl::{Communicator, Device, Result, Sum, launch};
///
/// fn main() -> Result<()> {
///     let total = launch!(total)?;
///     println!("{total} ranks");
///     # assert_eq!(total, 4);
///     Ok(())
/// }
///
/// fn total<D: Device>(comm: Communicator<D>) -> Result<u64> {
///     let mut ones = comm.device().from_slice(&[1_u64])?;
///     comm.all_reduce_in_place(&mut ones, Sum)?;
///     let total = ones.to_vec()?[0];
///     comm.finish()?;
///     Ok(total)
/// }
/// ```
///
/// With `,survive` a value is of the first rank of this process that succeeded.
///
/// # Errors
/// The first cause among the bodies' errors, not one that another rank's failure caused;
/// [`Error::SizeVariable`](crate::Error::SizeVariable) and
/// [`Error::BadLaunch`](crate::Error::BadLaunch) for the environment,
/// [`Error::NoDriver`](crate::Error::NoDriver) and
/// [`Error::NoSuchDevice`](crate::Error::NoSuchDevice) for missing GPUs.
#[macro_export]
macro_rules! launch {
    (Host: $body:expr $(,)?) => {
        $crate::launch!(Host: $body, $crate::CommConfig::default())
    };
    (Host: $body:expr, $config:expr $(,)?) => {
        $crate::__private::launch_on_host($config, |comm| $body(comm))
    };
    ($body:expr $(,)?) => {
        $crate::launch!($body, $crate::CommConfig::default())
    };
    ($body:expr, $config:expr $(,)?) => {
        $crate::__private::launch($config, |comm| $body(comm), |comm| $body(comm))
    };
}

/// The device of ranks with GPUs. Builds without GPUs use the host device, so the body is not
/// compiled a second time.
#[cfg(feature = "cuda")]
pub(super) type OnGpu = crate::Cuda<AnyDevice>;
#[cfg(not(feature = "cuda"))]
pub(super) type OnGpu = Host<AnyDevice>;

/// The expansion of `launch!`.
#[track_caller]
pub fn launch<R: Send, E: From<Error> + Display + Send + 'static>(
    config: CommConfig,
    host: impl Fn(Communicator<Host<AnyDevice>>) -> Result<R, E> + Sync,
    gpu: impl Fn(Communicator<OnGpu>) -> Result<R, E> + Sync,
) -> Result<R, E> {
    let site = Site::caller();
    let on_host = |place: Place<Host<AnyDevice>>| host(place.init_at(config.clone(), site)?);
    #[cfg(feature = "cuda")]
    let on_gpu = |place: Place<OnGpu>| gpu(place.init_at(config.clone(), site)?);
    #[cfg(not(feature = "cuda"))]
    let _ = gpu;
    match asked(&Variables::here())? {
        #[cfg(feature = "cuda")]
        Ranks::CudaThreads(n, others) => {
            let rank = |place: Place<OnGpu>| told(place.rank(), others, on_gpu(place));
            ended(spmd::ranks(n, OnGpu::any, rank)?, others)
        }
        #[cfg(feature = "cuda")]
        Ranks::Cuda(n, others) => Err(start::ranks(own_device::gpus(n)?, None, others).into()),
        #[cfg(feature = "cuda")]
        Ranks::This(found) if own_device::is_gpu(&found) => {
            start::this_rank(&found, || own_device::gpu(&found), on_gpu)
        }
        ranks => run_on_host(ranks, on_host),
    }
}

/// The expansion of `launch!(Host: ..)`.
#[track_caller]
pub fn launch_on_host<R: Send, E: From<Error> + Display + Send + 'static>(
    config: CommConfig,
    host: impl Fn(Communicator<Host<AnyDevice>>) -> Result<R, E> + Sync,
) -> Result<R, E> {
    let site = Site::caller();
    let on_host = |place: Place<Host<AnyDevice>>| host(place.init_at(config.clone(), site)?);
    run_on_host(asked(&Variables::here())?, on_host)
}

fn run_on_host<R: Send, E: From<Error> + Display + Send + 'static>(
    ranks: Ranks,
    on_host: impl Fn(Place<Host<AnyDevice>>) -> Result<R, E> + Sync,
) -> Result<R, E> {
    match ranks {
        Ranks::Host(n, others) => {
            let rank = |place: Place<Host<AnyDevice>>| told(place.rank(), others, on_host(place));
            ended(spmd::ranks(n, Host::any, rank)?, others)
        }
        Ranks::HostProcesses(n, others) => Err(start::ranks(n, Some("host"), others).into()),
        Ranks::This(found) | Ranks::ThisOnHost(found) => {
            start::this_rank(&found, || own_device::host(&found), on_host)
        }
        #[cfg(feature = "cuda")]
        Ranks::CudaThreads(..) | Ranks::Cuda(..) => Err(Error::from(LaunchFault::HostAlone).into()),
    }
}

/// Reports which rank failed if the others continue, since nothing else would. A panic reports
/// itself.
fn told<R, E: Display>(rank: Rank, others: Others, outcome: Result<R, E>) -> Result<R, E> {
    if let (Err(error), Others::GoOn) = (&outcome, others) {
        // The reader may be gone.
        let _ = writeln!(io::stderr(), "typed-nccl: rank {rank} failed: {error}; the others go on");
    }
    outcome
}

/// The first value of this process's ranks, of which there is at least one.
fn ended<R, E: From<Error>>(outcome: Outcome<R, E>, others: Others) -> Result<R, E> {
    let values = match others {
        Others::End => outcome.all(),
        Others::GoOn => outcome.any(),
    }?;
    let none = || InitFailed { size: 0, ranks: Vec::new(), why: "there are no ranks".to_owned() };
    values.into_iter().next().ok_or_else(|| Error::from(none()).into())
}

/// The requested ranks.
#[derive(Debug)]
enum Ranks {
    /// Threads on the host.
    Host(usize, Others),
    /// Threads, each with a GPU.
    #[cfg(feature = "cuda")]
    CudaThreads(usize, Others),
    /// Processes to start, on the host.
    HostProcesses(usize, Others),
    /// Processes to start, on this many GPUs or on all.
    #[cfg(feature = "cuda")]
    Cuda(Option<usize>, Others),
    /// This process, on its GPU if there is one.
    This(launcher::Found),
    /// This process, on the host.
    ThisOnHost(launcher::Found),
}

/// The number of ranks by default.
const DEFAULT: usize = 4;

fn asked(variables: &Variables) -> Result<Ranks> {
    let found = launcher::find(variables);
    let Some(value) = variables.get("TYPED_NCCL") else {
        return Ok(found?.map_or(Ranks::Host(DEFAULT, Others::End), Ranks::This));
    };
    if value == "host" {
        let none = || LaunchFault::NoHostRank { looked_for: launcher::looked_for() }.into();
        return found?.map(Ranks::ThisOnHost).ok_or_else(none);
    }
    let ranks = parse(value)?;
    match found {
        // An explicit request counts, even if a launcher's variables make no sense.
        Ok(Some(found)) if found.launched.size > 1 => {
            let asked = format!("TYPED_NCCL={value}");
            Err(LaunchFault::Copies { launched: found.launched, asked }.into())
        }
        _ => Ok(ranks),
    }
}

fn parse(value: &str) -> Result<Ranks> {
    let (ranks, others) = match value.strip_suffix(",survive") {
        Some(ranks) => (ranks, Others::GoOn),
        None => (value, Others::End),
    };
    let (kind, n) = ranks.split_once(':').map_or((ranks, None), |(kind, n)| (kind, Some(n)));
    let number = |n: &str| n.parse().ok().filter(|n| (1..=MOST).contains(n));
    if kind == "host" {
        let processes = n.and_then(|n| n.strip_suffix(",processes")).and_then(number);
        if let Some(n) = processes {
            return Ok(Ranks::HostProcesses(n, others));
        }
    }
    match (kind, n, n.and_then(number)) {
        ("host", _, Some(n)) => Ok(Ranks::Host(n, others)),
        #[cfg(feature = "cuda")]
        ("cuda", None, None) => Ok(Ranks::Cuda(None, others)),
        #[cfg(feature = "cuda")]
        ("cuda", _, Some(n)) => Ok(Ranks::Cuda(Some(n), others)),
        #[cfg(feature = "cuda")]
        ("cuda-threads", _, Some(n)) => Ok(Ranks::CudaThreads(n, others)),
        #[cfg(not(feature = "cuda"))]
        ("cuda", None, None) | ("cuda" | "cuda-threads", _, Some(_)) => {
            Err(LaunchFault::NoCuda { asked: format!("TYPED_NCCL={value}") }.into())
        }
        _ => Err(SizeVariable { found: value.to_owned() }.into()),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "cuda")]
    use super::run_on_host;
    use super::{Others, Ranks, asked, parse};
    use crate::launcher::Variables;

    fn fault(lines: &str) -> String {
        asked(&Variables::of(lines)).map(drop).expect_err(lines).to_string()
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn gpus_for_a_job_on_the_host() {
        for asked in ["cuda", "cuda:2", "cuda-threads:2"] {
            let ranks = parse(asked).expect(asked);
            let refused = run_on_host(ranks, |_| Ok::<(), crate::Error>(())).expect_err(asked);
            assert!(refused.to_string().contains("set TYPED_NCCL=host:4"), "{refused}");
        }
    }

    #[test]
    fn the_variable_is_a_kind_and_a_number() {
        assert!(matches!(parse("host:8"), Ok(Ranks::Host(8, Others::End))));
        assert!(matches!(parse("host:8,survive"), Ok(Ranks::Host(8, Others::GoOn))));
        let processes = parse("host:8,processes");
        assert!(matches!(processes, Ok(Ranks::HostProcesses(8, Others::End))));
        let survive = parse("host:8,processes,survive");
        assert!(matches!(survive, Ok(Ranks::HostProcesses(8, Others::GoOn))));
        let bad = [
            "8",
            "host:",
            "host:0",
            "host:-1",
            "host:eight",
            "host:99999999999",
            "cuda:",
            "cuda:0",
            "cuda-threads",
            "gpu:2",
            "cuda:2,",
            "cuda:2,survives",
            "cuda:2,survive,survive",
            "host,survive",
            "host:2,",
            "host,processes",
            "host:,processes",
            "host:0,processes",
            "host:2,processes,",
            "host:2,processes,processes",
            "host:2,survive,processes",
            "cuda:2,processes",
            "cuda-threads:2,processes",
            ",survive",
        ];
        for bad in bad {
            let error = parse(bad).map(drop).expect_err(bad).to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("host:8"), "{error}");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn gpus_are_asked_for_too() {
        assert!(matches!(parse("cuda"), Ok(Ranks::Cuda(None, Others::End))));
        assert!(matches!(parse("cuda:2"), Ok(Ranks::Cuda(Some(2), Others::End))));
        assert!(matches!(parse("cuda,survive"), Ok(Ranks::Cuda(None, Others::GoOn))));
        assert!(matches!(parse("cuda:2,survive"), Ok(Ranks::Cuda(Some(2), Others::GoOn))));
        assert!(matches!(parse("cuda-threads:2"), Ok(Ranks::CudaThreads(2, Others::End))));
        let survives = parse("cuda-threads:2,survive");
        assert!(matches!(survives, Ok(Ranks::CudaThreads(2, Others::GoOn))));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_gpus_takes_a_body_for_the_host_alone() {
        use crate::{Communicator, Host, Result};

        fn body<Tag>(comm: Communicator<Host<Tag>>) -> Result<usize> {
            let size = comm.size();
            comm.finish().map(|()| size)
        }
        assert_eq!(crate::launch!(body), Ok(4));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_build_without_gpus_says_so() {
        for asked in ["cuda", "cuda:2", "cuda-threads:2"] {
            let error = fault(&format!("TYPED_NCCL={asked}"));
            assert!(error.contains(asked) && error.contains("feature `cuda`"), "{error}");
        }
    }

    #[test]
    fn nobody_asks_for_anything() {
        assert!(matches!(asked(&Variables::of("")), Ok(Ranks::Host(4, Others::End))));
        assert!(matches!(asked(&Variables::of("TYPED_NCCL=")), Ok(Ranks::Host(4, Others::End))));
    }

    const RANK: &str = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=vm MASTER_PORT=29500";

    #[test]
    fn a_launcher_starts_one_rank() {
        assert!(matches!(asked(&Variables::of(RANK)), Ok(Ranks::This(_))));
        let on_host = format!("TYPED_NCCL=host {RANK}");
        assert!(matches!(asked(&Variables::of(&on_host)), Ok(Ranks::ThisOnHost(_))));
        let none = fault("TYPED_NCCL=host");
        for word in ["no launcher", "SLURM_PROCID (srun)", "host:4 runs", "host:4,processes starts"]
        {
            assert!(none.contains(word), "{none}");
        }
        assert!(fault("TYPED_NCCL=host RANK=1").contains("WORLD_SIZE"));
    }

    #[test]
    fn copies_of_all_ranks_are_refused() {
        for value in ["host:8", "host:8,processes"] {
            let error = fault(&format!("TYPED_NCCL={value} {RANK}"));
            let asked = format!("TYPED_NCCL={value} asks");
            for word in ["RANK", "rank 1 of 2", &asked, "`launch!`", "TYPED_NCCL=host;"] {
                assert!(error.contains(word), "{error}");
            }
        }
        // A shell with one task, and a variable that is set for another reason.
        let shell = RANK.replace("RANK=1", "RANK=0").replace("SIZE=2", "SIZE=1");
        for lines in [shell.as_str(), "RANK=1"] {
            assert!(matches!(
                asked(&Variables::of(&format!("TYPED_NCCL=host:8 {lines}"))),
                Ok(Ranks::Host(8, Others::End))
            ));
        }
        assert!(fault("RANK=1").contains("WORLD_SIZE"));
    }
}
