// SPDX-License-Identifier: MIT
`timescale 1ns/1ps
// What an RDMA card in RTL begins with: a few registers of BAR0 (docs/rnic/hardware.md), and an engine
// that copies memory of the host. The registers from COPY_FROM on are not the data sheet's.
module card(input clk, input reset,
            // An access to a register: held until `done`, which is one cycle.
            input valid, input write, input [20:0] address, input [31:0] wdata,
            output reg [31:0] rdata, output reg done,
            // An access of the card to 8 bytes of the host's memory: held until `dma_done`.
            output reg dma_valid, output reg dma_write, output reg [63:0] dma_address,
            output reg [63:0] dma_wdata, input [63:0] dma_rdata, input dma_done,
            output reg interrupt, // vector 0, one cycle
            output busy);         // there is something to do without the host
  localparam ID = 'h000, VERSION = 'h004, CTRL = 'h040, STATUS = 'h044, INT_MASK = 'h064;
  localparam COPY_FROM = 'h1000, COPY_TO = 'h1008, COPY_WORDS = 'h1010; // 64, 64, 32 bits; the last one starts
  reg enabled, copying;
  reg [15:0] mask;
  reg [63:0] from, to;
  reg [31:0] words;
  assign busy = copying;

  always @(posedge clk) begin
    done <= 0;
    interrupt <= 0;
    if (reset) begin
      {enabled, copying, mask, from, to, words, rdata} <= 0;
      {dma_valid, dma_write, dma_address, dma_wdata} <= 0;
    end else begin
      if (valid && !done) begin
        done <= 1;
        if (write) case (address)
          CTRL: enabled <= wdata[0] && !wdata[1];
          INT_MASK: mask <= wdata[15:0];
          COPY_FROM: from[31:0] <= wdata;
          COPY_FROM + 4: from[63:32] <= wdata;
          COPY_TO: to[31:0] <= wdata;
          COPY_TO + 4: to[63:32] <= wdata;
          COPY_WORDS: if (enabled && !copying) begin words <= wdata; copying <= 1; end
        endcase
        else case (address)
          ID: rdata <= 32'h4E524956;
          VERSION: rdata <= 32'h00010003;
          CTRL: rdata <= {31'b0, enabled};
          STATUS: rdata <= {30'b0, enabled, 1'b1};
          INT_MASK: rdata <= {16'b0, mask};
          COPY_WORDS: rdata <= words;
          default: rdata <= 0;
        endcase
      end
      if (copying && dma_valid && dma_done) begin
        dma_valid <= 0;
        dma_wdata <= dma_rdata;
        dma_write <= !dma_write;
        if (dma_write) begin from <= from + 8; to <= to + 8; words <= words - 1; end
      end else if (copying && !dma_valid && words == 0) begin
        copying <= 0;
        interrupt <= !mask[0];
      end else if (copying && !dma_valid) begin
        dma_valid <= 1;
        dma_address <= dma_write ? to : from;
      end
    end
  end
endmodule
