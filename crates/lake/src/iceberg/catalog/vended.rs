//! Stores with the credentials that a catalog gives for one table.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::{Result, not_impl_err};
use url::Url;

/// Settings of a store by the names of Iceberg, and those of `object_store`.
const NAMES: [(&str, &str); 8] = [
    ("s3.access-key-id", "aws_access_key_id"),
    ("s3.secret-access-key", "aws_secret_access_key"),
    ("s3.session-token", "aws_session_token"),
    ("s3.endpoint", "aws_endpoint"),
    ("client.region", "aws_region"),
    // Comes later, and takes precedence.
    ("s3.region", "aws_region"),
    ("adls.account-name", "azure_storage_account_name"),
    ("adls.account-key", "azure_storage_account_key"),
];

/// The end of credentials by the names of Iceberg, in milliseconds since 1970. Names of accounts follow.
const ENDS: [&str; 2] = ["s3.session-token-expires-at-ms", "adls.sas-token-expires-at-ms"];

/// The name of a setting that needs a store of its own.
const GIVEN: [&str; 4] = ["s3.access-key-id", "s3.endpoint", "adls.sas-token", "adls.account-key"];

/// The settings of a store by the names of `object_store`; `None` if the session's own store of the address is used.
///
/// # Errors
/// If they have credentials that cannot be used.
pub(super) fn settings(given: &BTreeMap<String, String>, url: &Url) -> Result<Option<Vec<(String, String)>>> {
    let azure = url.scheme().starts_with("abfs") || ["az", "azure", "adl"].contains(&url.scheme());
    let of_scheme = match url.scheme() {
        "s3" | "s3a" => ["s3.", "client."],
        _ if azure => ["adls.", "adls."],
        "gs" if given.contains_key("gcs.oauth2.token") => {
            return not_impl_err!(
                "the catalog gives tokens for {url}, and stores of Google are read with keys"
            );
        }
        _ => return Ok(None),
    };
    if !given.keys().any(|name| {
        GIVEN.iter().any(|own| name.starts_with(own)) && of_scheme.iter().any(|start| name.starts_with(start))
    }) {
        return Ok(None);
    }
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, own) in NAMES {
        if let Some(value) = given.get(name).filter(|_| of_scheme.iter().any(|start| name.starts_with(start)))
        {
            found.retain(|(known, _)| known != own);
            found.push((own.to_owned(), value.clone()));
        }
    }
    if given.get("s3.endpoint").is_some_and(|endpoint| endpoint.starts_with("http:")) {
        found.push(("aws_allow_http".to_owned(), "true".to_owned()));
    }
    if let Some(style) = given.get("s3.path-style-access").filter(|_| !azure) {
        let hosted = if style == "true" { "false" } else { "true" };
        found.push(("aws_virtual_hosted_style_request".to_owned(), hosted.to_owned()));
    }
    // adls.sas-token.ACCOUNT.dfs.core.windows.net
    let token = given
        .iter()
        .find(|(name, _)| azure && (*name == "adls.sas-token" || name.starts_with("adls.sas-token.")));
    if let Some((_, token)) = token {
        found.push(("azure_storage_sas_key".to_owned(), token.clone()));
    }
    Ok(Some(found))
}

/// The time at which given credentials end.
pub(super) fn end(given: &BTreeMap<String, String>) -> Option<SystemTime> {
    let ends = given.iter().filter(|(name, _)| ENDS.iter().any(|own| name.starts_with(own)));
    let first = ends.filter_map(|(_, at)| at.parse::<u64>().ok()).min()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(first))
}
