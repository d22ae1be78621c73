//! OpenTelemetry traces: a span for each statement, with spans for its phases and its scans, sent to a collector.
//!
//! A statement's span is a child of the client's, if the client sends one. Its attributes have the names of
//! OpenTelemetry's conventions for databases; those of coscan begin with `coscan.`. Texts of statements have `?` in place
//! of constants.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use crate::error::ServeError;
use crate::http::{Names, scans};
use crate::sql::{Ended, Phase, Protocol, Registry, Tables};

/// The name of the service, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has one.
const SERVICE: &str = "coscan";
const SERVICE_NAME: &str = "service.name";
/// The name that the library gives to services without one begins like this.
const UNKNOWN_SERVICE: &str = "unknown_service";
/// The name of the span of a statement without a first word.
const STATEMENT: &str = "statement";
/// Maximum time for the last spans when the server ends.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// A statement has at most this many spans of scans.
const SCANS_MAX: usize = 50;

/// The way of spans to a collector.
pub(crate) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts to send the statements of a server to the collector at this address, by OTLP over gRPC. The exporter reads
    /// OpenTelemetry's variables: headers, resource, sampler, limits of its queue.
    ///
    /// # Errors
    ///
    /// If the address is not one. Whether a collector answers is only known later, and is then in the log.
    pub(crate) fn start(
        address: &str,
        registry: &Registry,
        tables: &Arc<Tables>,
    ) -> Result<Self, ServeError> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(address).build();
        let exporter =
            exporter.map_err(|error| ServeError::setting("traces", format!("'{address}': {error}")))?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        let spans = Spans { tracer: provider.tracer(SERVICE), tables: Arc::downgrade(tables) };
        registry.on_end(move |statement| spans.add(statement));
        Ok(Traces(provider))
    }

    /// Sends the last spans.
    pub(crate) async fn shut_down(self) {
        // The library waits without yielding.
        let done = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(LAST_SPANS)).await;
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "the last spans of the traces are lost");
        }
    }
}

fn resource() -> Resource {
    let known = Resource::builder().build();
    let name = known.get(&SERVICE_NAME.into()).map(|name| name.to_string());
    match name.is_none_or(|name| name.starts_with(UNKNOWN_SERVICE)) {
        true => Resource::builder().with_service_name(SERVICE).build(),
        false => known,
    }
}

/// Makes spans of statements that ended.
struct Spans {
    tracer: SdkTracer,
    tables: Weak<Tables>,
}

impl Spans {
    fn add(&self, statement: &Ended<'_>) {
        let clock = Clock::now();
        let parent = statement.trace_parent.map_or_else(Context::new, context_of);
        let span = self.tracer.span_builder(STATEMENT).with_kind(SpanKind::Server);
        let span = span.with_start_time(clock.time(statement.begun));
        let mut span = span.start_with_context(&self.tracer, &parent);
        if !span.is_recording() {
            return;
        }
        // The text of a statement that is not sampled is not read.
        let (summary, text) = without_constants(statement.sql);
        span.update_name(summary.clone());
        span.set_attributes(attributes_of(statement, summary, text));
        if let Some((code, message)) = statement.error {
            span.set_attribute(KeyValue::new("db.response.status_code", code.to_owned()));
            span.set_attribute(KeyValue::new("error.type", code.to_owned()));
            span.set_status(Status::error(message.to_owned()));
        }
        let within = Context::new().with_remote_span_context(span.span_context().clone());
        if let Some((query, _)) = statement.run {
            self.add_phases(&within, &clock, statement.begun, &query.phases());
            if let Some(plan) = query.plan() {
                self.add_scans(&within, plan);
            }
        }
        span.end_with_timestamp(clock.at);
    }

    /// A span for each phase: from its start to that of the next one.
    fn add_phases(&self, within: &Context, clock: &Clock, begun: Instant, phases: &[(Phase, Instant)]) {
        let first = phases.first().map(|(_, first)| ("plan", begun, *first));
        let ends = phases.iter().skip(1).map(|(_, start)| *start).chain([clock.now]);
        let others = phases.iter().zip(ends).map(|((phase, start), end)| (name_of(*phase), *start, end));
        for (name, start, end) in first.into_iter().chain(others) {
            let span = self.tracer.span_builder(name).with_start_time(clock.time(start));
            span.start_with_context(&self.tracer, within).end_with_timestamp(clock.time(end));
        }
    }

    /// A span for each scan: its table and its counters above zero.
    fn add_scans(&self, within: &Context, plan: &Arc<dyn ExecutionPlan>) {
        let Some(tables) = self.tables.upgrade() else { return };
        let names = Names::of_tables(&tables);
        for (scan, file) in scans(plan).take(SCANS_MAX) {
            let metrics = scan.metrics().unwrap_or_default().aggregate_by_name();
            let Some((start, end)) = times_of(&metrics) else { continue };
            let mut span = self.tracer.span_builder("scan").with_start_time(start);
            span.attributes = Some(vec![
                KeyValue::new("db.collection.name", names.of(&file)),
                KeyValue::new("coscan.operator", scan.name().to_owned()),
            ]);
            let mut span = span.start_with_context(&self.tracer, within);
            let counters = metrics.timestamps_removed();
            for counter in counters.iter().map(|metric| metric.value()).filter(|of| of.as_usize() > 0) {
                let value = i64::try_from(counter.as_usize()).unwrap_or(i64::MAX);
                span.set_attribute(KeyValue::new(format!("coscan.{}", counter.name()), value));
            }
            span.end_with_timestamp(end);
        }
    }
}

/// The attributes of a statement's span.
fn attributes_of(statement: &Ended<'_>, summary: String, text: String) -> Vec<KeyValue> {
    let session = statement.session;
    let number = |number: u64| Value::I64(i64::try_from(number).unwrap_or(i64::MAX));
    let mut attributes = vec![
        KeyValue::new("db.system.name", SERVICE),
        KeyValue::new("db.namespace", session.database.clone()),
        KeyValue::new("db.operation.name", summary),
        KeyValue::new("db.query.text", text),
        KeyValue::new("user.name", session.user.name.clone()),
        KeyValue::new("network.protocol.name", protocol_of(session.protocol)),
        KeyValue::new("coscan.session", number(session.id)),
        KeyValue::new("coscan.application", session.application()),
    ];
    if let Some(peer) = session.peer {
        attributes.push(KeyValue::new("client.address", peer.ip().to_string()));
        attributes.push(KeyValue::new("client.port", i64::from(peer.port())));
    }
    if let Some((_, finished)) = statement.run {
        attributes.extend([
            KeyValue::new("db.response.returned_rows", number(finished.rows)),
            KeyValue::new("coscan.query", number(finished.id)),
            KeyValue::new("coscan.policy", finished.policy.clone()),
            KeyValue::new("coscan.bytes_read", number(finished.read)),
            KeyValue::new("coscan.bytes_spared", number(finished.spared)),
        ]);
    }
    attributes
}

fn protocol_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Postgres => "postgresql",
        other => other.as_str(),
    }
}

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Turn => "wait for a turn",
        Phase::Optimize => "optimize",
        Phase::Execute => "execute",
        Phase::Client => "wait for the client",
    }
}

/// The first and the last moment of an operator.
fn times_of(metrics: &MetricsSet) -> Option<(SystemTime, SystemTime)> {
    let (mut start, mut end) = (None, None);
    for metric in metrics.iter() {
        match metric.value() {
            MetricValue::StartTimestamp(at) => start = at.value(),
            MetricValue::EndTimestamp(at) => end = at.value(),
            _ => {}
        }
    }
    Some((start?.into(), end.or(start)?.into()))
}

/// The context of a client's span. An invalid one counts as none.
fn context_of(trace_parent: &str) -> Context {
    // The library takes identifiers of any length.
    let lengths: Vec<usize> = trace_parent.split('-').map(str::len).collect();
    if !lengths.starts_with(&[2, 32, 16, 2]) {
        return Context::new();
    }
    let carrier = HashMap::from([("traceparent".to_owned(), trace_parent.to_owned())]);
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

/// The first word of a statement, and its text with `?` in place of constants and without comments.
fn without_constants(sql: &str) -> (String, String) {
    // The beginning of a long statement may end within a constant.
    let mut tokens = Vec::new();
    let _ = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    let (mut summary, mut text) = (None, String::new());
    for token in tokens {
        match token.token {
            Token::Whitespace(_) => {
                if !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
            }
            token if is_constant(&token) => text.push('?'),
            token => {
                if let Token::Word(word) = &token
                    && word.keyword != Keyword::NoKeyword
                {
                    summary.get_or_insert_with(|| word.value.to_uppercase());
                }
                text.push_str(&token.to_string());
            }
        }
    }
    (summary.unwrap_or_else(|| STATEMENT.to_owned()), text.trim_end().to_owned())
}

fn is_constant(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

/// The calendar's time of instants.
struct Clock {
    now: Instant,
    at: SystemTime,
}

impl Clock {
    fn now() -> Self {
        Clock { now: Instant::now(), at: SystemTime::now() }
    }

    fn time(&self, of: Instant) -> SystemTime {
        self.at - self.now.saturating_duration_since(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_constants() {
        for (sql, summary, text) in [
            (
                "select a, 'x''y' from t where b = 3.5 /* c */ -- d",
                "SELECT",
                "select a, ? from t where b = ?",
            ),
            (
                "\n WITH \"T 1\" AS (SELECT $1::int) SELECT 7",
                "WITH",
                "WITH \"T 1\" AS (SELECT $1::int) SELECT ?",
            ),
            ("SELECT E'a\\'b', $$x$$, X'ff', 'cut of", "SELECT", "SELECT ?, ?, ?,"),
            ("", "statement", ""),
        ] {
            assert_eq!(without_constants(sql), (summary.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn a_client_span_is_the_parent_if_it_is_valid() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = context_of(valid);
        assert_eq!(context.span().span_context().trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(!context_of("00-4bf9-00f0-01").span().span_context().is_valid());
    }
}
