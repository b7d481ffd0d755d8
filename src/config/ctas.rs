//! The share of a GPU that NCCL takes.

use super::settings::{Setting, Value};

/// NCCL's limit of thread blocks per operation: its number of channels.
const MOST_CTAS: u32 = 64;
/// CUDA's limit of thread blocks per cluster.
const MOST_CLUSTER: u32 = 8;

/// The number of thread blocks (CTAs) that a communicator's kernels use, or those of one
/// collective. The program's own kernels cannot use them at the same time. NCCL chooses what is
/// left unset.
///
/// ```
/// use typed_nccl::{CommConfig, CtaPolicy, Ctas};
///
/// let config = CommConfig::builder().ctas(Ctas::between(4, 16).cluster(4)).build();
/// let sparing = CommConfig::builder().ctas(Ctas::any().policy(CtaPolicy::Efficiency)).build();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[must_use = "it is an option of a configuration"]
pub struct Ctas {
    range: Option<(u32, u32)>,
    cluster: Option<u32>,
    multicast: Option<u32>,
    policy: Option<CtaPolicy>,
}

/// What NCCL optimises thread blocks for.
///
/// See the example of [`Ctas`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CtaPolicy {
    /// The highest speed. NCCL: `NCCL_CTA_POLICY_DEFAULT`.
    Speed,
    /// Fewer thread blocks where that costs little. NCCL: `NCCL_CTA_POLICY_EFFICIENCY`, 2.27.
    Efficiency,
    /// No thread blocks where copy engines can move the data: `all_gather`, `all_to_all`, `gather`
    /// and `scatter` on windows, within one NVLink domain. NCCL: `NCCL_CTA_POLICY_ZERO`, 2.28.
    Zero,
}

impl Ctas {
    /// NCCL's choice.
    pub const fn any() -> Self {
        Self { range: None, cluster: None, multicast: None, policy: None }
    }

    /// From `least` to `most` for each kernel, within 1 to 64. NCCL: `minCTAs` and `maxCTAs`, 2.17.
    pub const fn between(least: u32, most: u32) -> Self {
        Self { range: Some((least, most)), ..Self::any() }
    }

    /// At most `most` for each kernel. NCCL: `maxCTAs`, 2.17.
    pub const fn at_most(most: u32) -> Self {
        Self::between(1, most)
    }

    /// Thread blocks per cluster, 0 to 8. NCCL: `cgaClusterSize`, 2.17.
    pub const fn cluster(self, blocks: u32) -> Self {
        Self { cluster: Some(blocks), ..self }
    }

    /// Thread blocks of kernels that use NVLink multicast, 1 to 64. NCCL: `nvlsCTAs`, 2.27.
    pub const fn multicast(self, blocks: u32) -> Self {
        Self { multicast: Some(blocks), ..self }
    }

    /// What to optimise thread blocks for. NCCL: `CTAPolicy`, 2.27.
    pub const fn policy(self, policy: CtaPolicy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Describes a value that NCCL would reject, if any.
    pub(super) fn fault(&self) -> Option<String> {
        let Self { range, cluster, multicast, .. } = *self;
        if let Some((least, most)) = range
            && !(1 <= least && least <= most && most <= MOST_CTAS)
        {
            return Some(format!(
                "`Ctas::between({least}, {most})` is no range within 1 and {MOST_CTAS}"
            ));
        }
        if let Some(blocks) = cluster.filter(|blocks| *blocks > MOST_CLUSTER) {
            return Some(format!("`Ctas::cluster({blocks})` is more than {MOST_CLUSTER}"));
        }
        let blocks = multicast.filter(|blocks| !(1..=MOST_CTAS).contains(blocks))?;
        Some(format!("`Ctas::multicast({blocks})` is not within 1 and {MOST_CTAS}"))
    }

    pub(super) fn settings(&self) -> [Option<Setting>; 5] {
        let number =
            |option, field, n: Option<u32>| Setting::number(option, field, n.map(u32::cast_signed));
        let policy = self.policy.map(|policy| match policy {
            CtaPolicy::Speed => Value::Named(0, "Speed"),
            CtaPolicy::Efficiency => Value::Named(1, "Efficiency"),
            CtaPolicy::Zero => Value::Named(2, "Zero"),
        });
        [
            // NCCL up to 2.31.1 reads the minimum only if the maximum is set as well.
            number("Ctas::between", "minCTAs", self.range.map(|(least, _)| least)),
            number("Ctas::between", "maxCTAs", self.range.map(|(_, most)| most)),
            number("Ctas::cluster", "cgaClusterSize", self.cluster),
            number("Ctas::multicast", "nvlsCTAs", self.multicast),
            policy.map(|policy| Setting::alike("Ctas::policy", "CTAPolicy", policy)),
        ]
    }

    pub(super) fn cluster_size(&self) -> Option<u32> {
        self.cluster
    }

    /// Whether copy engines are requested instead of thread blocks.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_zero(&self) -> bool {
        self.policy == Some(CtaPolicy::Zero)
    }
}
