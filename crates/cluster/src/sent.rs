//! The part of a session that goes to workers with each plan: settings, and functions with parameters.
//!
//! A worker's session begins with the defaults. Settings of the coordinator's session that differ from them travel, so
//! that time zone, batch size and parsing of numbers are the same. Startup settings of an engine do not.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use coscan_datafusion::CoscanOptions;
use datafusion::common::config::{ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::prelude::SessionConfig;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// The header.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("coscan-session");

/// Settings of coscan that a worker takes over. The others belong to its engine, or to the coordinator.
const OWN: [&str; 5] =
    ["small_table_bytes", "point_threshold", "order_aware", "share_aggregates", "share_filters"];

/// The part of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    settings: BTreeMap<String, String>,
    /// Descriptions of functions.
    pub(crate) functions: BTreeSet<String>,
    /// Whether workers run the plan as it is, for comparison.
    pub(crate) as_it_is: bool,
}

impl Sent {
    /// Returns the part of a session's settings.
    pub(crate) fn of(config: &SessionConfig) -> Self {
        let value =
            |entry: datafusion::common::config::ConfigEntry| entry.value.map(|value| (entry.key, value));
        let usual: BTreeMap<_, _> = ConfigOptions::new().entries().into_iter().filter_map(value).collect();
        let options = config.options();
        let given = options.entries().into_iter().filter_map(value);
        let of_engine =
            given.filter(|(key, value)| key.starts_with("datafusion.") && usual.get(key) != Some(value));
        let mut settings: BTreeMap<String, String> = of_engine.collect();
        if let Some(own) = options.extensions.get::<CoscanOptions>() {
            let usual: BTreeMap<_, _> =
                CoscanOptions::default().entries().into_iter().filter_map(value).collect();
            let own = own.entries().into_iter().filter_map(value);
            let is_sent = |key: &str| key.strip_prefix("coscan.").is_some_and(|name| OWN.contains(&name));
            settings.extend(own.filter(|(key, value)| is_sent(key) && usual.get(key) != Some(value)));
        }
        Sent { settings, functions: BTreeSet::new(), as_it_is: false }
    }

    /// Sets the settings of a worker's session.
    pub(crate) fn set(&self, options: &mut ConfigOptions, own: &mut CoscanOptions) -> Result<()> {
        for (key, value) in &self.settings {
            match key.strip_prefix("coscan.") {
                Some(name) if OWN.contains(&name) => own.set_value(name, value)?,
                Some(_) => {}
                None => options.set(key, value)?,
            }
        }
        Ok(())
    }

    /// Returns the header.
    pub(crate) fn header(&self) -> Result<HeaderMap> {
        let json = serde_json::to_vec(self).map_err(|error| internal_datafusion_err!("{error}"))?;
        let value = HeaderValue::from_str(&BASE64.encode(json));
        let value = value.map_err(|error| internal_datafusion_err!("{error}"))?;
        Ok(HeaderMap::from_iter([(HEADER, value)]))
    }

    /// Reads the header.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Self> {
        let Some(value) = headers.get(HEADER) else { return Ok(Sent::default()) };
        let json = BASE64.decode(value.as_bytes());
        let json =
            json.map_err(|error| internal_datafusion_err!("the session of a plan is malformed: {error}"))?;
        serde_json::from_slice(&json)
            .map_err(|error| internal_datafusion_err!("the session of a plan is malformed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_travel_and_those_of_the_engine_stay() {
        let mut config = SessionConfig::new().with_batch_size(1234);
        config.options_mut().execution.time_zone = Some("+05:30".to_owned());
        let mut own = CoscanOptions::default();
        own.set_value("small_table_bytes", "7").expect("a setting");
        own.set_value("buffer", "1MB").expect("a setting of the engine");
        config.options_mut().extensions.insert(own);
        let sent = Sent::from_headers(&Sent::of(&config).header().expect("a header")).expect("a header");
        let (mut options, mut own) = (ConfigOptions::new(), CoscanOptions::default());
        sent.set(&mut options, &mut own).expect("settings");
        assert_eq!(options.execution.batch_size, config.options().execution.batch_size);
        assert_eq!(options.execution.time_zone.as_deref(), Some("+05:30"));
        assert_eq!(own.small_table_bytes, 7);
        assert_eq!(own.engine_settings.get("buffer"), None);
        assert!(!format!("{sent:?}").contains("buffer"));
    }
}
