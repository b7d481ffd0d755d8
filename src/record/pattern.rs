//! Names of files that vary by rank, host and process.

use std::path::PathBuf;

/// A file's name with `{rank}`, `{host}` and `{pid}` in it.
pub(super) struct Pattern {
    text: String,
    /// Whether the rank is appended, because the name does not place it.
    appends: bool,
}

impl Pattern {
    /// One file, unless the name says otherwise.
    pub(super) fn file(text: String) -> Self {
        Self { text, appends: false }
    }

    /// A file for each rank: the rank follows the text unless the text places it.
    pub(super) fn prefix(text: String) -> Self {
        let appends = !text.contains("{rank}");
        Self { text, appends }
    }

    /// The file of a rank.
    pub(super) fn of(&self, rank: u32) -> PathBuf {
        let text = self.text.replace("{rank}", &rank.to_string());
        let text = text.replace("{pid}", &std::process::id().to_string());
        let text = match text.contains("{host}") {
            true => text.replace("{host}", &host()),
            false => text,
        };
        PathBuf::from(if self.appends { format!("{text}{rank}") } else { text })
    }
}

/// The machine's name up to the first dot.
pub(super) fn host() -> String {
    #[cfg(target_os = "linux")]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    let name = std::env::var("HOSTNAME").unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Pattern;

    #[test]
    fn a_rank_is_placed_or_appended() {
        let pid = std::process::id();
        let cases = [
            (Pattern::file("t.json".to_owned()), "t.json".to_owned()),
            (Pattern::file("t-{rank}-{pid}.json".to_owned()), format!("t-3-{pid}.json")),
            (Pattern::prefix("/tmp/fr_".to_owned()), "/tmp/fr_3".to_owned()),
            (Pattern::prefix("fr{rank}.json".to_owned()), "fr3.json".to_owned()),
        ];
        for (pattern, file) in cases {
            assert_eq!(pattern.of(3), Path::new(&file));
        }
        let of_host = Pattern::file("{host}".to_owned()).of(0);
        assert!(!of_host.to_string_lossy().contains('{'), "{of_host:?}");
    }
}
