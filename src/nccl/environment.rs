//! NCCL's environment, as far as it affects what this library promises.
//!
//! NCCL prefers a variable to what a program configures, and reads its files as if they were
//! variables. Variables that only affect speed are the user's choice. Variables that would break a
//! promise are refused by name before NCCL is called; docs/guide/src/environment.md lists each
//! variable. Settings of NCCL's environment plugins are not visible here.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::communicator::{CaptureOrder, CommConfig, GraphUse, LaunchOrder, Transfers};
use crate::error::Unsupported;

/// The variables read. The first [`ALIKE`] must be the same on all ranks.
const NAMES: [&str; 31] = [
    "NCCL_ALGO",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_COLLNET_ENABLE",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MIN_CTAS",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NUM_RMA_CTX",
    "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_P2P_MAX_PEERS",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_PROTO",
    "NCCL_RMA_EAGER_INIT",
    "NCCL_WIN_ENABLE",
    "NCCL_CHECK_MODE",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_ID",
    "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_DISABLE_MEM_MANAGER",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_STREAM_ORDERING",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_RMA_DISABLE",
    "NCCL_SHM_DISABLE",
];

/// How many variables must be the same on all ranks.
const ALIKE: usize = 18;

/// Whether the environment lets several ranks share one GPU.
pub(crate) fn shares_gpus() -> bool {
    Environment::read().is_on("NCCL_MULTI_RANK_GPU_ENABLE")
}

/// The refusals of the environment, for a communicator with the default configuration and what is
/// made with it.
pub(crate) fn refused_variables() -> Vec<String> {
    let environment = Environment::read();
    let all = [
        environment.allows(&CommConfig::default(), false),
        environment.allows_windows(),
        environment.allows_one_sided("a put or a signal"),
        environment.allows_graphs(),
        environment.allows_suspending(),
    ];
    all.into_iter().filter_map(|allowed| Some(allowed.err()?.to_string())).collect()
}

/// The variables that are set.
pub(super) struct Environment(Vec<Variable>);

struct Variable {
    name: &'static str,
    value: String,
    /// The file that sets it, if a file does.
    file: Option<PathBuf>,
}

impl Environment {
    /// Reads them in NCCL's order: the process's environment, the user's file, the machine's file.
    pub(super) fn read() -> Self {
        let users = match env::var_os("NCCL_CONF_FILE").filter(|path| !path.is_empty()) {
            Some(path) => Some(PathBuf::from(path)),
            None => env::var_os("HOME").map(|home| PathBuf::from(home).join(".nccl.conf")),
        };
        let files = users.into_iter().chain([PathBuf::from("/etc/nccl.conf")]);
        let files: Vec<_> = files
            .filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes)))
            .map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned()))
            .collect();
        Self::of(|name| env::var_os(name).map(|value| value.to_string_lossy().into()), &files)
    }

    fn of(variable: impl Fn(&str) -> Option<String>, files: &[(PathBuf, String)]) -> Self {
        let found = NAMES.into_iter().filter_map(|name| {
            let own = variable(name).map(|value| Variable { name, value, file: None });
            own.or_else(|| {
                files.iter().find_map(|(path, text)| {
                    let value = in_file(text, name)?.to_owned();
                    Some(Variable { name, value, file: Some(path.clone()) })
                })
            })
        });
        Self(found.collect())
    }

    fn find(&self, name: &str) -> Option<&Variable> {
        self.0.iter().find(|variable| variable.name == name)
    }

    /// The variable, if it is set to a number that fits.
    fn number(&self, name: &str, is: impl Fn(i64) -> bool) -> Option<&Variable> {
        self.find(name).filter(|variable| number(&variable.value).is_some_and(is))
    }

    /// The variable, if it is set to this word.
    fn word(&self, name: &str, word: &str) -> Option<&Variable> {
        self.find(name).filter(|variable| variable.value.eq_ignore_ascii_case(word))
    }

    /// Whether a variable is set to anything but 0.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.number(name, |n| n != 0).is_some()
    }

    /// The variables that must be the same on all ranks, for messages: ` with NCCL_ALGO=Ring`.
    /// Empty if none is set.
    pub(super) fn alike(&self) -> String {
        let alike = NAMES[..ALIKE].iter().filter_map(|name| self.find(name));
        let alike: Vec<_> = alike.map(|found| format!("{}={}", found.name, found.value)).collect();
        if alike.is_empty() { String::new() } else { format!(" with {}", alike.join(", ")) }
    }

    /// Fails if a communicator of this configuration could not keep its promises.
    pub(super) fn allows(&self, config: &CommConfig, is_lent: bool) -> Result<()> {
        if !is_lent {
            self.allows_ours(config)?;
        }
        self.allows_configured(config)
    }

    /// Checks for every communicator that is made here.
    fn allows_ours(&self, config: &CommConfig) -> Result<()> {
        let (zero, not_zero) = (|n| n == 0, |n| n != 0);
        let alone = Some(()).filter(|()| !config.split_share);
        let apart = Some(()).filter(|()| !config.shrink_share);
        let rules = [
            (
                self.number("NCCL_COMM_BLOCKING", zero),
                "a communicator",
                "calls of NCCL that return when they are done",
            ),
            (
                self.find("NCCL_COMM_ID"),
                "a communicator",
                "an id of its own: with that variable all of them meet at one address",
            ),
            (
                alone.and_then(|()| self.number("NCCL_COMM_SPLIT_SHARE_RESOURCES", not_zero)),
                "a communicator whose children can outlive it",
                "them to have resources of their own (or `CommConfig::split_share`)",
            ),
            (
                apart.and_then(|()| self.number("NCCL_COMM_SHRINK_SHARE_RESOURCES", not_zero)),
                "a communicator that can be shrunk",
                "resources that do not end with the one before (or `CommConfig::shrink_share`)",
            ),
        ];
        rules.into_iter().try_for_each(|(found, what, needs)| refuse(found, what, needs))
    }

    /// Checks for every communicator, and for what its configuration asks for.
    fn allows_configured(&self, config: &CommConfig) -> Result<()> {
        let when = |wanted: bool, found: Option<_>| found.filter(|_| wanted);
        let contexts = i64::from(config.slots().context);
        let registered = config.transfers == Transfers::Registered;
        let one = matches!(config.graphs, GraphUse::One(_));
        let kept = config.graphs == GraphUse::One(CaptureOrder::Kept);
        let mixed = config.graphs == GraphUse::Mixed;
        let calls = config.launch_order == LaunchOrder::Calls;
        let (zero, not_zero) = (|n| n == 0, |n| n != 0);
        let fewer = |n| n >= 0 && n < contexts;
        let (early, several) = (config.has_signals(), contexts > 1);
        let rules = [
            (
                self.word("NCCL_LAUNCH_MODE", "GROUP"),
                "a communicator",
                "operations whose call does not wait for other ranks",
            ),
            (
                self.word("NCCL_CHECK_MODE", "DEBUG_GLOBAL"),
                "a communicator",
                "operations whose call does not wait for other ranks, as DEBUG_LOCAL leaves them",
            ),
            (
                when(early || several, self.number("NCCL_NUM_RMA_CTX", fewer)),
                if early { "`CommConfig::early_signals`" } else { "`CommConfig::contexts`" },
                "as many contexts as the program configures",
            ),
            (
                when(early, self.number("NCCL_RMA_EAGER_INIT", zero)),
                "`CommConfig::early_signals`",
                "NCCL to set up signals when a communicator is made",
            ),
            (
                when(registered, self.number("NCCL_LOCAL_REGISTER", zero)),
                "`Transfers::Registered`",
                "NCCL to register memory",
            ),
            (
                when(registered, self.number("NCCL_P2P_USE_CUDA_MEMCPY", not_zero)),
                "`Transfers::Registered`",
                "NCCL to register memory",
            ),
            (
                when(one || mixed, self.number("NCCL_GRAPH_MIXING_SUPPORT", zero)),
                "`CommConfig::graphs`",
                "the use of graphs that the program configures",
            ),
            (
                when(kept, self.number("NCCL_GRAPH_STREAM_ORDERING", zero)),
                "`CaptureOrder::Kept`",
                "NCCL to order what is captured",
            ),
            (
                when(calls, self.number("NCCL_LAUNCH_ORDER_IMPLICIT", zero)),
                "`LaunchOrder::Calls`",
                "NCCL to order operations by the host's calls",
            ),
        ];
        rules.into_iter().try_for_each(|(found, what, needs)| refuse(found, what, needs))
    }

    /// Whether windows can be registered.
    pub(super) fn allows_windows(&self) -> Result<()> {
        ["NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE"].into_iter().try_for_each(|name| {
            let needs = "NCCL to map memory into other ranks and to register windows";
            refuse(self.number(name, |n| n == 0), "a window", needs)
        })
    }

    /// Whether one-sided operations are left enabled.
    pub(super) fn allows_one_sided(&self, what: &str) -> Result<()> {
        let off = self.number("NCCL_NUM_RMA_CTX", |n| n == 0);
        let off = off.or_else(|| self.number("NCCL_RMA_DISABLE", |n| n != 0));
        refuse(off, what, "NCCL's one-sided operations")
    }

    /// Whether operations can be captured when the program leaves the use of graphs to NCCL.
    pub(super) fn allows_graphs(&self) -> Result<()> {
        let off = self.number("NCCL_GRAPH_MIXING_SUPPORT", |n| n == 0);
        refuse(off, "a graph", "graphs beside direct calls")
    }

    /// Whether communicators can be suspended.
    pub(super) fn allows_suspending(&self) -> Result<()> {
        let off = self.number("NCCL_DISABLE_MEM_MANAGER", |n| n != 0);
        refuse(off, "suspending a communicator", "NCCL's memory manager")
    }
}

fn refuse(variable: Option<&Variable>, what: &str, needs: &str) -> Result<()> {
    match variable {
        None => Ok(()),
        Some(variable) => Err(Unsupported::error(what, needs, variable.to_string())),
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, file } = self;
        match file {
            None => write!(f, "{name}={value} is set: unset it"),
            Some(file) => write!(f, "{name}={value} is set in {}: take it out", file.display()),
        }
    }
}

/// A variable in one of NCCL's files. The first of several lines counts.
fn in_file<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=')).find(|(known, _)| *known == name).map(|it| it.1)
}

/// A number as NCCL parses it, with C's `strtoll`: text that is not a number is 0, empty text
/// counts as unset.
fn number(text: &str) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    let text = text.trim_start();
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => (-1, text),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (radix, text) = match hex {
        Some(text) => (16, text),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    };
    let digits = text.chars().map_while(|digit| digit.to_digit(radix));
    let found =
        digits.fold(0_i64, |n, digit| n.saturating_mul(radix.into()).saturating_add(digit.into()));
    Some(sign * found)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{ALIKE, Environment, NAMES, number};
    use crate::communicator::{CommConfig, GraphUse};

    #[test]
    fn numbers_are_cs() {
        let all =
            [("0", 0), ("1", 1), ("-2", -2), (" 0x1f", 31), ("010", 8), ("off", 0), ("7x", 7)];
        all.into_iter().for_each(|(text, n)| assert_eq!(number(text), Some(n), "{text}"));
        assert_eq!(number(""), None);
    }

    #[test]
    fn files_are_read_as_nccl_does() {
        let file = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let files = [
            file(
                "~",
                "# NCCL_COMM_ID=here\nNCCL_GRAPH_MIXING_SUPPORT=0\nNCCL_GRAPH_MIXING_SUPPORT=1\n",
            ),
            file("/etc/nccl.conf", "NCCL_GRAPH_MIXING_SUPPORT=1\r\nNCCL_WIN_ENABLE=0\r\n"),
        ];
        let environment = Environment::of(|_| None, &files);
        let config = CommConfig::builder().graphs(GraphUse::Mixed).build();
        let error = environment.allows(&config, false).expect_err("the file says so").to_string();
        assert!(error.ends_with("NCCL_GRAPH_MIXING_SUPPORT=0 is set in ~: take it out"), "{error}");
        let error = environment.allows_windows().expect_err("the machine's says so").to_string();
        assert!(
            error.ends_with("NCCL_WIN_ENABLE=0 is set in /etc/nccl.conf: take it out"),
            "{error}"
        );
        // The process's environment comes first.
        let own = |name: &str| (name == "NCCL_GRAPH_MIXING_SUPPORT").then(|| "1".to_owned());
        assert_eq!(Environment::of(own, &files).allows(&config, false), Ok(()));
    }

    #[test]
    fn the_documents_name_each() {
        let table = include_str!("../../docs/guide/src/environment.md");
        for name in NAMES {
            assert!(table.contains(&format!("`{name}")), "{name} is not in the guide");
        }
        assert!(NAMES[..ALIKE].is_sorted() && NAMES[ALIKE..].is_sorted());
    }
}
