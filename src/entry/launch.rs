//! One program, wherever it finds itself.

use std::env::VarError;
use std::fmt::Display;

use crate::error::{Error, LaunchedUnderLauncher, SizeVariable};
use crate::seat::MOST;
use crate::{AnyDevice, CommConfig, Communicator, Host, Result};

/// Runs `fn body<W: World>(comm: Communicator<W>) -> Result<()>` on every rank.
///
/// On a machine without a launcher that is 4 host ranks in this process; `TYPED_NCCL=host:8` makes
/// it 8. `launch!(body, config)` gives the communicator a [`CommConfig`](crate::CommConfig), a deadline
/// for instance. The body's error is ours or one that ours converts into, such as anyhow's. For tests use
/// [`spmd`](crate::spmd), whose number of ranks is its argument.
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
#[macro_export]
macro_rules! launch {
    ($body:expr $(,)?) => {
        $crate::launch!($body, $crate::CommConfig::default())
    };
    ($body:expr, $config:expr $(,)?) => {
        $crate::__private::launch($config, |comm| $body(comm))
    };
}

/// What `launch!` expands to.
pub fn launch<E: From<Error> + Display + Send + 'static>(
    config: CommConfig,
    body: impl Fn(Communicator<Host<AnyDevice>>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let n = ranks()?;
    Host::<AnyDevice>::ranks(n, |place| body(place.init_with(config.clone())?)).map(drop)
}

/// Variables by which launchers are known, all of which must be set.
const LAUNCHERS: [(&[&str], &str); 3] = [
    (&["RANK", "WORLD_SIZE"], "torchrun"),
    (&["OMPI_COMM_WORLD_RANK"], "mpirun"),
    (&["SLURM_PROCID", "SLURM_STEP_ID"], "srun"),
];

/// How many ranks without being told.
const DEFAULT: usize = 4;

fn ranks() -> Result<usize> {
    match std::env::var("TYPED_NCCL") {
        Ok(value) => parse(&value),
        Err(VarError::NotUnicode(value)) => parse(&value.to_string_lossy()),
        Err(VarError::NotPresent) => {
            let set = |name: &&str| std::env::var_os(name).is_some();
            match LAUNCHERS.iter().find(|(names, _)| names.iter().all(set)) {
                Some(&(names, launcher)) => {
                    let found = LaunchedUnderLauncher { variable: names[0], launcher };
                    Err(Error::LaunchedUnderLauncher(Box::new(found)))
                }
                None => Ok(DEFAULT),
            }
        }
    }
}

fn parse(value: &str) -> Result<usize> {
    let n =
        value.strip_prefix("host:").and_then(|n| n.parse().ok()).filter(|n| (1..=MOST).contains(n));
    n.ok_or_else(|| Error::SizeVariable(Box::new(SizeVariable { found: value.to_owned() })))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_variable_is_host_and_a_number() {
        assert_eq!(parse("host:8").ok(), Some(8));
        for bad in
            ["8", "host", "host:", "host:0", "host:-1", "cuda:8", "host:eight", "host:99999999999"]
        {
            let error = parse(bad).map(drop).expect_err(bad).to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("host:8"), "{error}");
        }
    }
}
