package main

import (
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"
)

func parquetGoNode(kind string) parquet.Node {
	if strings.HasPrefix(kind, "decimal") {
		precision, scale := digits(kind)
		if precision > 18 {
			return parquet.Decimal(scale, precision, parquet.FixedLenByteArrayType(16))
		}
		return parquet.Decimal(scale, precision, parquet.Int64Type)
	}
	return map[string]parquet.Node{
		"int8": parquet.Int(8), "int16": parquet.Int(16), "int32": parquet.Int(32), "int64": parquet.Int(64),
		"uint8": parquet.Uint(8), "uint16": parquet.Uint(16), "uint32": parquet.Uint(32), "uint64": parquet.Uint(64),
		"float": parquet.Leaf(parquet.FloatType), "double": parquet.Leaf(parquet.DoubleType),
		"bool": parquet.Leaf(parquet.BooleanType), "text": parquet.String(), "dictionary": parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
		"bytes": parquet.Leaf(parquet.ByteArrayType), "fixed": parquet.Leaf(parquet.FixedLenByteArrayType(4)), "date": parquet.Date(),
		"ms": parquet.Timestamp(parquet.Millisecond), "us": parquet.Timestamp(parquet.Microsecond),
	}[kind]
}

func parquetGoValue(kind, text string) parquet.Value {
	if strings.HasPrefix(kind, "decimal") {
		precision, scale := digits(kind)
		number := unscaled(text, scale)
		if precision <= 18 {
			return parquet.Int64Value(number.Int64())
		}
		data := make([]byte, 16)
		if number.Sign() < 0 {
			number.Add(number, twoTo128)
		}
		return parquet.FixedLenByteArrayValue(number.FillBytes(data))
	}
	switch kind {
	case "int8", "int16", "int32", "date":
		return parquet.Int32Value(int32(integer(text)))
	case "uint8", "uint16", "uint32":
		return parquet.Int32Value(int32(uint32(unsigned(text))))
	case "int64", "ms", "us":
		return parquet.Int64Value(integer(text))
	case "uint64":
		return parquet.Int64Value(int64(unsigned(text)))
	case "float":
		return parquet.FloatValue(float32(float(text)))
	case "double":
		return parquet.DoubleValue(float(text))
	case "bool":
		return parquet.BooleanValue(text == "1")
	case "fixed":
		return parquet.FixedLenByteArrayValue(bytesOf(text))
	case "text", "dictionary", "bytes":
		return parquet.ByteArrayValue(bytesOf(text))
	}
	panic("no value for " + kind)
}

// Columns are in the order of their names.
func writeParquetGo(out *os.File, read *rows, how options) error {
	group := parquet.Group{}
	for at, name := range read.names {
		node := parquetGoNode(read.kinds[at])
		if node == nil {
			panic("no node for " + read.kinds[at])
		}
		group[name] = parquet.Optional(node)
	}
	schema := parquet.NewSchema("rows", group)
	version := 1
	if how.version == "2" {
		version = 2
	}
	settings := []parquet.WriterOption{schema, parquet.DataPageVersion(version), parquet.PageBufferSize(int(how.pageBytes)),
		parquet.MaxRowsPerRowGroup(how.groupRows), parquet.DataPageStatistics(true)}
	switch how.codec {
	case "SNAPPY":
		settings = append(settings, parquet.Compression(&parquet.Snappy))
	case "GZIP":
		settings = append(settings, parquet.Compression(&parquet.Gzip))
	}
	writer := parquet.NewWriter(out, settings...)
	place := map[string]int{}
	for at, path := range schema.Columns() {
		place[path[0]] = at
	}
	for _, row := range read.values {
		values := make(parquet.Row, len(row))
		for at, text := range row {
			column := place[read.names[at]]
			if text == "-" {
				values[column] = parquet.NullValue().Level(0, 0, column)
			} else {
				values[column] = parquetGoValue(read.kinds[at], text[1:]).Level(0, 1, column)
			}
		}
		if _, err := writer.WriteRows([]parquet.Row{values}); err != nil {
			return err
		}
	}
	return writer.Close()
}
