// Package checkpoint is a placeholder comment until the end of its first hour.
package checkpoint
