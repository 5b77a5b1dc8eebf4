// Scratch memory of one call: blocks from malloc, given out from the front, freed all at once.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "interrupts.h"

namespace gpuparse {

// An arena is made once for a batch and used for all its sentences:
//
//     Arena arena;
//     for each sentence:
//         ArenaMark mark(arena);              // what is taken below is given back at the brace
//         double* scores = arena.take<double>(n * n);
//         if (!scores) return NO_MEMORY;      // or ask arena.failed() once after several takes
//
// Memory that is given back to a mark stays with the arena and is given out again. One thread only.
class Arena {
public:
    Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena() {
        while (last_) {
            Block* before = last_->before;
            free(last_->memory);
            last_ = before;
        }
        if (spare_) free(spare_->memory);
    }

    // `count` values that are not initialized, 64-byte aligned; NULL where memory runs out (or
    // `count` is negative or too large), and then failed() stays true. A count of 0 gives an address.
    template <class T>
    T* take(int64_t count) {
        if (count < 0 || count > (INT64_MAX - 4096) / (int64_t)sizeof(T)) {
            failed_ = true;
            return nullptr;
        }
        return static_cast<T*>(take_bytes(count * (int64_t)sizeof(T)));
    }

    // `count` values whose bytes are 0; NULL also where the call is to end.
    template <class T>
    T* take_zeros(int64_t count) {
        return take_pieces<T>(count, [](T* values, int64_t some) {
            memset(static_cast<void*>(values), 0, (size_t)some * sizeof(T));
        });
    }

    // `count` copies of `value`; NULL also where the call is to end.
    template <class T>
    T* take_filled(int64_t count, T value) {
        return take_pieces<T>(count, [&](T* values, int64_t some) {
            for (int64_t i = 0; i < some; ++i) values[i] = value;
        });
    }

    // True if memory has run out, or the call is to end.
    bool failed() const { return failed_ || is_ending; }

    // Say that memory ran out elsewhere; returns false.
    bool fail() {
        failed_ = true;
        return false;
    }

private:
    friend class ArenaMark;

    struct Block {  // stands at the front of its own memory, 64-byte aligned
        void* memory;  // as malloc returned it
        Block* before;
        int64_t size;  // bytes after the header
        int64_t used;
    };
    static constexpr int64_t ALIGNMENT = 64;
    static constexpr int64_t FIRST_BLOCK = 64 * 1024;

    static unsigned char* values_of(Block* block) {
        return reinterpret_cast<unsigned char*>(block) + ALIGNMENT;
    }

    // Values that fill(values, some) fills piece by piece.
    template <class T, class Fill>
    T* take_pieces(int64_t count, Fill fill) {
        constexpr int64_t PIECE = (1 << 20) / (int64_t)sizeof(T);
        T* const values = take<T>(count);
        for (int64_t i = 0; values && i < count; i += PIECE) {
            if (i > 0 && is_interrupted(1 << 17)) return nullptr;
            fill(values + i, count - i < PIECE ? count - i : PIECE);
        }
        return values;
    }

    void* take_bytes(int64_t bytes) {
        bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (!last_ || last_->size - last_->used < bytes) {
            if (!add_block(bytes)) return nullptr;
        }
        void* values = values_of(last_) + last_->used;
        last_->used += bytes;
        return values;
    }

    bool add_block(int64_t bytes) {
        if (spare_ && spare_->size >= bytes) {
            Block* block = spare_;
            spare_ = nullptr;
            block->before = last_;
            last_ = block;
            return true;
        }
        int64_t size = last_ ? 2 * last_->size : FIRST_BLOCK;
        if (size < bytes) size = bytes;
        void* memory = malloc((size_t)(size + 2 * ALIGNMENT));
        if (!memory && size > bytes) {  // without the reserve
            size = bytes;
            memory = malloc((size_t)(size + 2 * ALIGNMENT));
        }
        if (!memory) {
            failed_ = true;
            return false;
        }
        uintptr_t address = (reinterpret_cast<uintptr_t>(memory) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        Block* block = reinterpret_cast<Block*>(address);
        block->memory = memory;
        block->before = last_;
        block->size = size;
        block->used = 0;
        last_ = block;
        return true;
    }

    void give_back(Block* block, int64_t used) {
        while (last_ != block) {  // the largest block of those that end here is kept
            Block* ending = last_;
            last_ = ending->before;
            if (!spare_ || spare_->size < ending->size) {
                if (spare_) free(spare_->memory);
                spare_ = ending;
                spare_->used = 0;
            } else {
                free(ending->memory);
            }
        }
        if (last_) last_->used = used;
    }

    Block* last_ = nullptr;
    Block* spare_ = nullptr;
    bool failed_ = false;
};

// Gives back at the end of its scope what was taken since its beginning.
class ArenaMark {
public:
    explicit ArenaMark(Arena& arena)
        : arena_(arena), block_(arena.last_), used_(arena.last_ ? arena.last_->used : 0) {}
    ArenaMark(const ArenaMark&) = delete;
    ArenaMark& operator=(const ArenaMark&) = delete;
    ~ArenaMark() { give_back(); }
    // The same at once; what is taken afterwards is given back at the end of the scope.
    void give_back() { arena_.give_back(block_, used_); }

private:
    Arena& arena_;
    Arena::Block* block_;
    int64_t used_;
};

}  // namespace gpuparse
