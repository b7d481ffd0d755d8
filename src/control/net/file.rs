//! The file in which rank 0 publishes the rendezvous and its secret. Only its owner can read it,
//! and it appears atomically.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::ident;
use super::unique::{BootstrapHandle, UniqueId};

const HEAD: &[u8] = b"typed-nccl, where the ranks meet, 2\n";

/// The most bytes that are read.
const MOST: u64 = 1 << 12;

pub(super) fn write(path: &Path, place: &BootstrapHandle) -> io::Result<()> {
    let id = UniqueId::of(place);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let random: [u8; 8] = ident::random().map_err(io::Error::other)?;
    name.push(format!(".{:016x}", u64::from_le_bytes(random)));
    let new = path.with_file_name(name);
    let written = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(HEAD)?;
        file.write_all(&id.to_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    written().inspect_err(|_| {
        // The temporary file is useless if it cannot be renamed.
        let _ = fs::remove_file(&new);
    })
}

/// The rendezvous; `None` if there is no file.
pub(super) fn read(path: &Path) -> io::Result<Option<BootstrapHandle>> {
    let file = match OpenOptions::new().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    // SAFETY: `geteuid` has no preconditions.
    let own = unsafe { libc::geteuid() };
    if about.uid() != own || about.mode() & 0o077 != 0 {
        let found = format!(
            "it belongs to user {} with mode {:o}, and its secret is for user {own} alone: choose a path that only you can write",
            about.uid(),
            about.mode() & 0o777
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, found));
    }
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let id = bytes.strip_prefix(HEAD).and_then(|id| id.try_into().ok());
    let place = id.and_then(|id| UniqueId::from_bytes(id).place().ok());
    let other = || io::Error::new(ErrorKind::InvalidData, "it is no file of `Seat::file`");
    place.map(Some).ok_or_else(other)
}
