//! Remedies in terms of another library's API.

/// A library's expressions for remedies.
pub(super) struct Words {
    /// A contiguous copy.
    pub(super) dense: &'static str,
    /// The same elements with permuted dimensions.
    pub(super) permuted: &'static str,
    /// Without its gradient.
    pub(super) detach: &'static str,
    /// All elements.
    pub(super) all: &'static str,
    /// Values with pending operations applied.
    pub(super) now: &'static str,
    /// On a GPU.
    pub(super) to_gpu: &'static str,
    /// On the host.
    pub(super) to_host: &'static str,
    /// In NCCL memory.
    pub(super) empty: &'static str,
    /// A tensor.
    pub(super) itself: &'static str,
}

impl Words {
    /// A library's expressions, or plain words for an unknown library.
    pub(super) fn of(library: Option<&str>) -> &'static Self {
        match library {
            Some("torch") => &Self {
                dense: "`x.contiguous()`",
                permuted: "the view `x.permute(..)`",
                detach: "`x.detach()`",
                all: "`x.to_dense()`",
                now: "`x.resolve_conj().resolve_neg()`",
                to_gpu: "`x.to(\"cuda:0\")`",
                to_host: "`x.cpu()`",
                empty: "`interop::torch::empty`",
                itself: "the `torch.Tensor` itself",
            },
            Some("cupy") => &Self {
                dense: "`cupy.ascontiguousarray(x)`",
                permuted: "the view `x.transpose(..)`",
                all: "`x.toarray()`",
                to_host: "`x.get()`",
                empty: "`interop::cupy::empty`",
                itself: "the `cupy.ndarray` itself",
                ..Self::ANY
            },
            Some("numpy") => &Self {
                dense: "`numpy.ascontiguousarray(x)`",
                permuted: "the view `x.transpose(..)`",
                to_gpu: "`cupy.asarray(x)`",
                empty: "`interop::numpy::empty`",
                itself: "the `numpy.ndarray` itself",
                ..Self::ANY
            },
            Some("candle") => &Self {
                dense: "`x.contiguous()?`",
                permuted: "the view `x.permute(..)?`",
                detach: "`x.detach()`",
                to_gpu: "`x.to_device(&Device::new_cuda(0)?)?`",
                to_host: "`x.to_device(&Device::Cpu)?`",
                ..Self::ANY
            },
            Some("DLPack") => &Self { itself: "what a `__dlpack__` gave", ..Self::ANY },
            Some("ndarray") => &Self {
                dense: "`x.as_standard_layout().into_owned()`",
                permuted: "the view `x.view_mut().permuted_axes(..)`",
                ..Self::ANY
            },
            _ => &Self::ANY,
        }
    }

    const ANY: Self = Self {
        dense: "a contiguous copy",
        permuted: "a view with its dimensions permuted",
        detach: "a detached view of it",
        all: "its dense form",
        now: "a copy with its values",
        to_gpu: "a copy on the communicator's GPU",
        to_host: "a copy on the host",
        empty: "the `empty` of the library's module in `typed_nccl::interop`",
        itself: "the array or the tensor itself",
    };
}
