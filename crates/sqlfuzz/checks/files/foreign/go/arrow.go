package main

import (
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func arrowType(kind string) arrow.DataType {
	if strings.HasPrefix(kind, "decimal") {
		precision, scale := digits(kind)
		return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}
	}
	return map[string]arrow.DataType{
		"int8": arrow.PrimitiveTypes.Int8, "int16": arrow.PrimitiveTypes.Int16, "int32": arrow.PrimitiveTypes.Int32,
		"int64": arrow.PrimitiveTypes.Int64, "uint8": arrow.PrimitiveTypes.Uint8, "uint16": arrow.PrimitiveTypes.Uint16,
		"uint32": arrow.PrimitiveTypes.Uint32, "uint64": arrow.PrimitiveTypes.Uint64, "float": arrow.PrimitiveTypes.Float32,
		"double": arrow.PrimitiveTypes.Float64, "bool": arrow.FixedWidthTypes.Boolean, "text": arrow.BinaryTypes.String,
		"dictionary": arrow.BinaryTypes.String, "bytes": arrow.BinaryTypes.Binary, "fixed": &arrow.FixedSizeBinaryType{ByteWidth: 4},
		"date": arrow.FixedWidthTypes.Date32, "ms": &arrow.TimestampType{Unit: arrow.Millisecond},
		"us": &arrow.TimestampType{Unit: arrow.Microsecond}, "list": arrow.ListOf(arrow.PrimitiveTypes.Int32),
	}[kind]
}

func appendValue(builder array.Builder, kind, text string) {
	switch to := builder.(type) {
	case *array.Int8Builder:
		to.Append(int8(integer(text)))
	case *array.Int16Builder:
		to.Append(int16(integer(text)))
	case *array.Int32Builder:
		to.Append(int32(integer(text)))
	case *array.Int64Builder:
		to.Append(integer(text))
	case *array.Uint8Builder:
		to.Append(uint8(unsigned(text)))
	case *array.Uint16Builder:
		to.Append(uint16(unsigned(text)))
	case *array.Uint32Builder:
		to.Append(uint32(unsigned(text)))
	case *array.Uint64Builder:
		to.Append(unsigned(text))
	case *array.Float32Builder:
		to.Append(float32(float(text)))
	case *array.Float64Builder:
		to.Append(float(text))
	case *array.BooleanBuilder:
		to.Append(text == "1")
	case *array.StringBuilder:
		to.Append(string(bytesOf(text)))
	case *array.BinaryBuilder:
		to.Append(bytesOf(text))
	case *array.FixedSizeBinaryBuilder:
		to.Append(bytesOf(text))
	case *array.Date32Builder:
		to.Append(arrow.Date32(integer(text)))
	case *array.TimestampBuilder:
		to.Append(arrow.Timestamp(integer(text)))
	case *array.Decimal128Builder:
		_, scale := digits(kind)
		to.Append(decimal128.FromBigInt(unscaled(text, scale)))
	case *array.ListBuilder:
		to.Append(true)
		for _, each := range strings.Split(text, ",") {
			if each != "" {
				to.ValueBuilder().(*array.Int32Builder).Append(int32(integer(each)))
			}
		}
	default:
		panic("no builder for " + kind)
	}
}

func writeArrow(out *os.File, read *rows, how options) error {
	fields := make([]arrow.Field, len(read.names))
	for at, name := range read.names {
		fields[at] = arrow.Field{Name: name, Type: arrowType(read.kinds[at]), Nullable: true}
	}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for _, row := range read.values {
		for at, text := range row {
			if text == "-" {
				builder.Field(at).AppendNull()
			} else {
				appendValue(builder.Field(at), read.kinds[at], text[1:])
			}
		}
	}
	version := parquet.DataPageV1
	if how.version == "2" {
		version = parquet.DataPageV2
	}
	codec := map[string]compress.Compression{"UNCOMPRESSED": compress.Codecs.Uncompressed, "SNAPPY": compress.Codecs.Snappy,
		"GZIP": compress.Codecs.Gzip}[how.codec]
	properties := parquet.NewWriterProperties(parquet.WithDataPageVersion(version), parquet.WithDataPageSize(how.pageBytes),
		parquet.WithMaxRowGroupLength(how.groupRows), parquet.WithDictionaryDefault(how.dictionary), parquet.WithCompression(codec))
	writer, err := pqarrow.NewFileWriter(builder.Schema(), out, properties, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	if err := writer.Write(builder.NewRecordBatch()); err != nil {
		return err
	}
	return writer.Close()
}
