//! The NCCL that this process has loaded: its release and file, its last warning, and process-wide
//! settings.
//!
//! Each function loads NCCL, as the first communicator does, and needs no GPU. The variable
//! `TYPED_NCCL_LIB` selects the library. Without it, the search covers a copy already loaded in the
//! process, then the system's search path, then Python's wheels.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use nccl_sys::{ncclEncryptionConfig_t, ncclEncryptionMode_t, ncclResult_t};

use super::api::{Nccl, lacking};
use super::family;
use crate::Result;
use crate::error::{BadKey, Error, NcclResult, NcclVersion, Unsupported};

/// The loaded release; of RCCL, the release of NCCL that it follows. NCCL: `ncclGetVersion`.
///
/// # Errors
/// [`Error::NoNccl`] lists every place that was tried.
pub fn version() -> Result<NcclVersion> {
    Ok(Nccl::load()?.api.version().into())
}

/// Whether the library that `TYPED_NCCL_LIB` named is AMD's RCCL. What RCCL lacks is
/// [`Error::Unsupported`], by the function's name. Buffers and streams stay CUDA's.
///
/// # Errors
/// See [`version`].
pub fn is_rccl() -> Result<bool> {
    Ok(Nccl::load()?.api.library() == nccl_sys::Library::Rccl)
}

/// The file that it was loaded from; `None` if the system does not report it.
///
/// # Errors
/// See [`version`].
pub fn path() -> Result<Option<PathBuf>> {
    Ok(Nccl::load()?.api.path())
}

/// The CUDA release that it was built with, major and minor; `None` if its file does not say. Reads
/// the file.
///
/// # Errors
/// See [`version`].
pub fn built_for() -> Result<Option<(u32, u32)>> {
    Ok(path()?.and_then(|path| banner(&path).ok().flatten()))
}

/// NCCL's last warning in this process, of any communicator; `None` before the first one. NCCL:
/// `ncclGetLastError`.
///
/// # Errors
/// See [`version`].
pub fn last_error() -> Result<Option<String>> {
    Ok(Nccl::load()?.last_words())
}

/// NCCL's description of a result. NCCL: `ncclGetErrorString`.
///
/// # Errors
/// See [`version`].
pub fn describe(result: NcclResult) -> Result<String> {
    Ok(Nccl::load()?.sentence(ncclResult_t(result.code())))
}

/// A key shared by all processes of a job: text of 32 bytes or more.
#[derive(Clone)]
pub struct PreSharedKey(CString);

impl PreSharedKey {
    /// Creates a key from text.
    ///
    /// # Errors
    /// [`Error::BadKey`]: under 32 bytes, or contains a zero.
    pub fn new(text: impl Into<Vec<u8>>) -> Result<Self> {
        let text = text.into();
        let bad = |bytes, zero_at| Error::from(BadKey { bytes, zero_at });
        let bytes = text.len();
        let key = CString::new(text).map_err(|error| bad(bytes, Some(error.nul_position())))?;
        if bytes < BadKey::LEAST { Err(bad(bytes, None)) } else { Ok(Self(key)) }
    }
}

impl std::fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PreSharedKey(..)")
    }
}

/// Makes NCCL encrypt its own TCP connections, over which ranks meet and, without a faster network,
/// send data. Every process of the job calls it with the same key before its first communicator. It
/// stays in effect for the life of the process. Traffic over InfiniBand, NVLink or shared memory is
/// not encrypted. Neither are typed-nccl's own connections, which only prove knowledge of the job's
/// secret (`TYPED_NCCL_SECRET`).
///
/// NCCL accepts the request even if it was built without TLS, as NVIDIA's wheels are. Then
/// `connect` fails with [`NcclResult::InvalidUsage`] and NCCL's explanation.
///
/// NCCL: `ncclSetEncryption`, 2.32.3.
///
/// # Errors
/// [`Error::NoNccl`]; [`Error::Unsupported`]: an older release, or a process that has already made
/// a communicator; an NCCL failure.
pub fn encrypt(key: &PreSharedKey) -> Result<()> {
    let nccl = Nccl::load()?;
    let mode = ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_PSK.0;
    let wish =
        ncclEncryptionConfig_t { mode, psk: key.0.as_ptr(), ..ncclEncryptionConfig_t::new() };
    let set = nccl.api.ncclSetEncryption().map_err(lacking("encryption"))?;
    if family::has_met() {
        return Err(Unsupported::error(
            "encryption of NCCL's connections",
            "to be asked for before the first communicator",
            "this process has made one",
        ));
    }
    // SAFETY: the request is complete; its key ends with a zero and lives until the call returns.
    let result = unsafe { set(&raw const wish) };
    nccl.check("ncclSetEncryption", None, result)
}

/// The CUDA release that its file states: `NCCL version 2.32.3+cuda13.1`, and a zero.
fn banner(path: &Path) -> io::Result<Option<(u32, u32)>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut part = Vec::new();
    loop {
        part.clear();
        if file.read_until(b'+', &mut part)? == 0 {
            return Ok(None);
        }
        if is_release(&part) {
            part.clear();
            file.read_until(0, &mut part)?;
            if let Some(found) = cuda_of(&part) {
                return Ok(Some(found));
            }
        }
    }
}

/// Whether the text ends like `NCCL version 2.32.3+`.
fn is_release(text: &[u8]) -> bool {
    let Some(text) = text.strip_suffix(b"+") else { return false };
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let number = text.iter().rev().take_while(|byte| is_number(byte)).count();
    number > 0 && text[..text.len() - number].ends_with(b"NCCL version ")
}

/// Parses `cuda13.1` and a zero.
fn cuda_of(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text.strip_suffix(b"\0")?).ok()?;
    let (major, minor) = text.strip_prefix("cuda")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{cuda_of, is_release};

    #[test]
    fn a_file_says_its_cuda() {
        assert!(is_release(b"\x01NCCL version 2.32.3+") && !is_release(b"NCCL version %s+"));
        assert_eq!(cuda_of(b"cuda13.1\0"), Some((13, 1)));
        assert_eq!(cuda_of(b"cuda\0"), None);
    }
}
