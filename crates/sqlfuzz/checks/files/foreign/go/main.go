// Writes Parquet files with arrow-go and parquet-go. Each line of the input is a job: tab-separated parts, see
// `writers_apart.py`.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
)

// Columns of a file of rows: names, kinds, and values as text; "-" is null, others begin with "=".
type rows struct {
	names, kinds []string
	values       [][]string
}

type options struct {
	library, version     string
	pageBytes, groupRows int64
	dictionary           bool
	codec                string
}

func main() {
	jobs := bufio.NewScanner(os.Stdin)
	jobs.Buffer(nil, 1<<20)
	for jobs.Scan() {
		if err := write(strings.Split(jobs.Text(), "\t")); err != nil {
			fmt.Println("refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("written")
		}
	}
}

// The parts: target, file of rows, library, version, bytes of pages, rows of row groups, dictionary, codec.
func write(job []string) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%v", failure)
		}
	}()
	read, err := readRows(job[1])
	if err != nil {
		return err
	}
	page, _ := strconv.ParseInt(job[4], 10, 64)
	group, _ := strconv.ParseInt(job[5], 10, 64)
	how := options{library: job[2], version: job[3], pageBytes: page, groupRows: group, dictionary: job[6] == "true", codec: job[7]}
	out, err := os.Create(job[0])
	if err != nil {
		return err
	}
	defer out.Close()
	if how.library == "arrow-go" {
		return writeArrow(out, read, how)
	}
	return writeParquetGo(out, read, how)
}

func readRows(path string) (*rows, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	read := &rows{}
	for at := 0; lines.Scan(); at++ {
		parts := strings.Split(lines.Text(), "\t")
		switch at {
		case 0:
			read.names = parts
		case 1:
			read.kinds = parts
		default:
			read.values = append(read.values, parts)
		}
	}
	return read, lines.Err()
}

func integer(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func unsigned(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func float(text string) float64 {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return number
}

func bytesOf(text string) []byte {
	data, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}

// Returns a decimal as an integer in units of its last digit.
func unscaled(text string, scale int) *big.Int {
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("no decimal: " + text)
	}
	factor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	number.Mul(number, new(big.Rat).SetInt(factor))
	return number.Num()
}

// Returns precision and scale of a kind like "decimal 18 4".
func digits(kind string) (precision, scale int) {
	fmt.Sscanf(kind, "decimal %d %d", &precision, &scale)
	return precision, scale
}

var twoTo128 = new(big.Int).Lsh(big.NewInt(1), 128)
